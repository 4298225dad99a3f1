"""What the page computes, with NumPy, ONNX Runtime and SentencePiece."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import sentencepiece

from transformer_cli.inference.engine import repeats_itself


class Reference:
    """Translates sentences with an export's files, as the page does."""

    def __init__(self, directory: Path, **search: Any) -> None:
        self.about = json.loads((directory / "onnx.json").read_text(encoding="utf-8"))
        self.about["search"] |= search
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(directory / name, options)
            for name in ("encoder.onnx", "decoder_step.onnx")
        )
        models = sorted((directory / "tokenizer").glob("*.model"))  # a joint one, or src and tgt
        pieces = [sentencepiece.SentencePieceProcessor(model_file=str(path)) for path in models]
        self.src, self.tgt = pieces[0], pieces[-1]

    def translate(self, sentence: str, beam_size: int) -> list[str]:
        """Return translations of a sentence, best first."""
        found = self.search(self.src.encode(sentence), beam_size)
        return [self.tgt.decode(ids).replace("\n", " ") for ids in found]

    def search(self, ids: list[int], beam_size: int) -> list[list[int]]:
        """Return the ids of each hypothesis, best first."""
        search = self.about["search"]
        bos, eos, size = search["starts_with"], search["ends_with"], search["no_repeat_ngram_size"]
        most = int(len(ids) * search["max_length_ratio"]) + search["max_length_extra"]
        names = [each.name for each in self.decoder.get_inputs()]
        memory = self.encoder.run(None, {"src": np.array([[*ids, search["source_ends_with"]]])})
        past = [each[:, :, :0] for each in memory[1:]]
        live: list[tuple[float, list[int]]] = [(0.0, [bos])]
        ended: list[tuple[float, list[int]]] = []
        for _ in range(min(most, self.about["longest"]["tgt"])):
            tokens = np.array([[written[-1]] for _, written in live])
            rows = [np.repeat(each, len(live), axis=0) for each in memory]
            inputs = dict(zip(names, [tokens, *rows, *past], strict=True))
            logits, *present = self.decoder.run(None, inputs)
            likely = logits.astype(np.float64)
            likely -= np.log(np.exp(likely - likely.max(1, keepdims=True)).sum(1, keepdims=True))
            likely -= logits.max(axis=1, keepdims=True)
            likely[:, search["never_written"]] = -np.inf
            if size and not repeats_itself(ids, size):
                for row, (_, written) in enumerate(live):
                    for end in range(size, len(written) + 1):
                        sequence = written[end - size : end]
                        if [*written[1 - size :], sequence[-1]] == sequence:
                            likely[row, sequence[-1]] = -np.inf
            totals = np.array([total for total, _ in live])[:, None] + likely
            order = np.argsort(-totals.ravel(), kind="stable")[: 2 * beam_size]
            best = [(divmod(place, totals.shape[1]), totals.ravel()[place]) for place in order]
            for (parent, token), total in best[:beam_size]:
                if token == eos and len(ended) < beam_size:
                    ended.append((total, live[parent][1]))
            kept = [one for one in best if one[0][1] != eos][:beam_size]
            live = [(total, [*live[parent][1], int(token)]) for (parent, token), total in kept]
            past = [each[[parent for (parent, _), _ in kept]] for each in present]
            if len(ended) == beam_size:
                break
        found = ended or live[:1]
        penalty = search["length_penalty"]
        found.sort(key=lambda one: one[0] / ((5 + len(one[1])) / 6) ** penalty, reverse=True)
        return [written[1:] for _, written in found]
