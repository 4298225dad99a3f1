"""Stores the matrices of ONNX graphs as int8, in one file that all graphs share.

Only the weights are rounded: ONNX Runtime restores them as float32 when it loads a graph. So its
results are nearly the same on every machine and in every browser.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np


def quantize(graphs: Iterable[Path], weights: Path) -> None:
    """Replace the matrices of the files ``graphs`` with int8 ones, stored in the file ``weights``.

    A matrix that occurs several times is stored once.
    """
    from onnx import TensorProto, external_data_helper, helper, load, numpy_helper

    stored = bytearray()
    for path in graphs:
        model = load(path)
        graph, restoring = model.graph, []
        factors = {name for node in graph.node if node.op_type == "MatMul" for name in node.input}
        for tensor in [each for each in graph.initializer if len(each.dims) == 2]:
            name, matrix = tensor.name, numpy_helper.to_array(tensor)
            # Each column of a factor has its own scale, and so has each row of an embedding.
            axis = 0 if name in factors else 1
            scale = np.maximum(np.abs(matrix).max(axis=axis, keepdims=True), 1e-30) / 127
            rounded = np.rint(matrix / scale).astype(np.int8)
            data = rounded.tobytes()
            if (offset := stored.find(data)) < 0:
                offset = len(stored)
                stored += data
            tensor.CopyFrom(numpy_helper.from_array(rounded, f"{name}_int8"))
            external_data_helper.set_external_data(tensor, weights.name, offset, len(data))
            tensor.ClearField("raw_data")
            graph.initializer.append(numpy_helper.from_array(scale, f"{name}_scale"))
            restoring += [
                helper.make_node("Cast", [tensor.name], [f"{name}_float"], to=TensorProto.FLOAT),
                helper.make_node("Mul", [f"{name}_float", f"{name}_scale"], [name]),
            ]
        for node in reversed(restoring):
            graph.node.insert(0, node)
        path.write_bytes(model.SerializeToString())
    weights.write_bytes(stored)
