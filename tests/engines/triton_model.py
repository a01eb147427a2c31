"""A model for Triton's Python backend: doubles what it gets. A negative first number makes it fail. While a file `gate`
is next to the model's folders it waits, so that a queue can be built up and counted."""
import os
import time

import numpy
import triton_python_backend_utils as pb_utils

GATE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gate")
STEP = 0.005  # seconds of work per execution


class TritonPythonModel:
    def execute(self, requests):
        while os.path.exists(GATE):
            time.sleep(0.005)
        inputs = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        if any((x < 0).any() for x in inputs):
            raise ValueError("a negative number")
        time.sleep(STEP)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", (x * 2).astype(numpy.float32))]) for x in inputs]
