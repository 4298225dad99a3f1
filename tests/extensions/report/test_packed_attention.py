import base64

import torch

from transformer_cli.extensions.report.run_page import AttentionMaps, pack_attention


def test_weights_are_bytes_in_the_order_of_layer_head_query_key() -> None:
    src, tgt = ["a", "<EOS>"], ["x", "y", "<EOS>"]
    encoder = torch.rand(2, 3, 2, 2)
    decoder = torch.rand(2, 3, 3, 3)
    cross = torch.rand(2, 3, 3, 2)
    cross[0, 0, 0] = torch.tensor([0.0, 1.0])
    found = pack_attention("a sentence", AttentionMaps(src, tgt, encoder, decoder, cross))
    assert found["title"] == "a sentence"
    for name, weights in (("encoder", encoder), ("decoder", decoder), ("cross", cross)):
        kind = found["kinds"][name]
        data = base64.b64decode(kind["weights"])
        read = torch.tensor(list(data)).view(weights.shape) / 255
        torch.testing.assert_close(read, weights, atol=0.5 / 255, rtol=0)
        assert (kind["layers"], kind["heads"]) == (2, 3)
    assert (found["kinds"]["cross"]["queries"], found["kinds"]["cross"]["keys"]) == (tgt, src)
    assert found["kinds"]["encoder"]["queries"] == src
    # The decoder's steps look at their input: each reads the word before the one that it writes.
    assert found["kinds"]["decoder"]["queries"] == tgt
    assert found["kinds"]["decoder"]["keys"] == ["<BOS>", "x", "y"]
