"""Our weights in JoeyNMT's Transformer."""

from collections.abc import Iterator
from types import SimpleNamespace

from joeynmt.model import Model, build_model
from joeynmt.vocabulary import Vocabulary
from safetensors.torch import load_file
from torch import Tensor, nn

from benchmarks.decoding_job import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Job

EPSILON = 1e-5
"""What our layer norms add to a variance; JoeyNMT's 1e-6 would change the function."""


def load_model(job: Job) -> Model:
    """JoeyNMT's model with the job's weights, for use without training.

    All embeddings are tied, positions are sinusoids, norms come first. JoeyNMT's output layer has
    no bias: it gets one, as ours has. Its layer norms get our epsilon.
    """
    vocabulary = _vocabulary(job.vocab_size)
    model = build_model(_settings(job), vocabulary, vocabulary)
    with_bias = nn.Linear(job.model["d_model"], job.vocab_size)
    with_bias.weight = model.decoder.output_layer.weight  # stays tied
    model.decoder.output_layer = with_bias
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = EPSILON
    weights = load_file(job.weights)
    positions = {name: table for name, table in model.state_dict().items() if ".pe" in name}
    model.load_state_dict(dict(_renamed(weights, job)) | positions)
    return model.eval()


def _vocabulary(size: int) -> Vocabulary:
    """A vocabulary of nameless tokens, with our numbers for the specials."""
    specials = SimpleNamespace(
        unk_token="0", pad_token="1", bos_token="2", eos_token="3", sep_token=None, lang_tags=[],
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None,
    )  # fmt: skip
    vocabulary = Vocabulary([str(number) for number in range(4, size)], specials)
    # It insists on an order of its own only while it is made.
    vocabulary.unk_index, vocabulary.pad_index = UNK_ID, PAD_ID
    vocabulary.bos_index, vocabulary.eos_index = BOS_ID, EOS_ID
    return vocabulary


def _settings(job: Job) -> dict[str, object]:
    """JoeyNMT's ``model`` section."""
    sides = {
        side: {
            "type": "transformer",
            "num_layers": job.model[f"num_{side}_layers"],
            "num_heads": job.model["num_heads"],
            "hidden_size": job.model["d_model"],
            "ff_size": job.model["d_ff"],
            "layer_norm": "pre",
            "activation": "relu",
            "dropout": 0.0,
            "embeddings": {"embedding_dim": job.model["d_model"], "scale": True},
        }
        for side in ("encoder", "decoder")
    }
    return {"tied_embeddings": True, "tied_softmax": True, **sides}


def _renamed(weights: dict[str, Tensor], job: Job) -> Iterator[tuple[str, Tensor]]:
    """JoeyNMT's names, each with our weight."""
    for name in ("src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight"):
        yield name, weights["src_embedding.tokens.weight"]
    yield "decoder.output_layer.bias", weights["output.bias"]
    for stack in ("encoder", "decoder"):
        names = {f"{stack}.layer_norm": f"{stack}_norm"}
        for number in range(job.model[f"num_{stack}_layers"]):
            layer = {"encoder": _ENCODER_LAYER, "decoder": _DECODER_LAYER}[stack]
            names |= {
                f"{stack}.layers.{number}.{theirs}": f"{stack}.{number}.{ours}"
                for theirs, ours in layer.items()
            }
        for theirs, ours in names.items():
            for part in ("weight", "bias"):
                yield f"{theirs}.{part}", weights[f"{ours}.{part}"]


def _attention(theirs: str, ours: str) -> dict[str, str]:
    parts = {"q_layer": "query", "k_layer": "key", "v_layer": "value", "output_layer": "output"}
    return {f"{theirs}.{name}": f"{ours}.{part}" for name, part in parts.items()}


_FEED_FORWARD = {
    "feed_forward.layer_norm": "around_feed_forward.norm",
    "feed_forward.pwff_layer.0": "feed_forward.inner",
    "feed_forward.pwff_layer.3": "feed_forward.outer",
}
_ENCODER_LAYER = {
    "layer_norm": "around_self_attention.norm",
    **_attention("src_src_att", "self_attention"),
    **_FEED_FORWARD,
}
_DECODER_LAYER = {
    "x_layer_norm": "around_self_attention.norm",
    "dec_layer_norm": "around_cross_attention.norm",
    **_attention("trg_trg_att", "self_attention"),
    **_attention("src_trg_att", "cross_attention"),
    **_FEED_FORWARD,
}
