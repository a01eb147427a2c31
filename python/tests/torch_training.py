"""gpulens.training with PyTorch on the CPU: the norm compared with PyTorch's, and a real training loop."""
import math
import threading
import unittest

import torch

from gpulens import Registry, TrainingMonitor
from gpulens.compat.l9gpu.training import L9GPUTrainingMonitor


def network():
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    model(torch.randn(8, 16)).square().mean().backward()
    return model


class WithTorch(unittest.TestCase):
    def setUp(self):
        self.registry = Registry()
        self.monitor = TrainingMonitor(registry=self.registry)

    def value(self, name):
        return next(s.value for s in self.registry.snapshot() if s.name == name)

    def test_the_norm_is_that_of_clip_grad_norm(self):
        model = network()
        norm = self.monitor.gradients.record_step(model, max_norm=1e9)
        right = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        self.assertIsInstance(norm, torch.Tensor)
        self.assertAlmostEqual(float(norm), float(right), 5)
        self.assertAlmostEqual(self.value("training.gradient.norm"), float(right), 5)
        self.assertEqual(self.value("training.gradient.nan_count"), 0)
        self.assertEqual(self.value("training.gradient.clip_rate"), 0)

    def test_nonfinite_gradients_are_counted(self):
        model = network()
        model[0].bias.grad[3] = math.nan
        model[2].bias.grad[0] = math.inf
        rest = [model[0].weight.grad, model[2].weight.grad]
        norm = self.monitor.gradients.record_step(model)
        self.assertAlmostEqual(float(norm), math.sqrt(sum(float(g.square().sum()) for g in rest)), 5)
        self.assertEqual(self.value("training.gradient.nan_count"), 2)

    def test_halves_are_added_up_as_floats(self):
        parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
        parameter.grad = torch.tensor([300.0, 400.0], dtype=torch.float16)
        self.assertAlmostEqual(float(self.monitor.gradients.record_step([parameter])), 500.0, 2)

    def test_kinds_of_gradients_are_mixed(self):
        wide = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
        wide.grad = torch.tensor([3.0], dtype=torch.float64)
        sparse = torch.nn.Parameter(torch.zeros(4))
        sparse.grad = torch.sparse_coo_tensor([[1, 1]], [2.0, 2.0], (4,))
        self.assertAlmostEqual(float(self.monitor.gradients.record_step([wide, sparse])), 5.0)
        self.assertAlmostEqual(float(self.monitor.gradients.record_step([torch.tensor([6.0]), torch.tensor([8.0])])), 10.0)

    def test_no_gradient_is_changed(self):
        model = network()
        before = [p.grad.clone() for p in model.parameters()]
        self.monitor.gradients.record_step(model, scale=2.0)
        for parameter, gradient in zip(model.parameters(), before):
            self.assertTrue(torch.equal(parameter.grad, gradient))

    def test_a_training_loop(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        monitor = TrainingMonitor(num_params=sum(p.numel() for p in model.parameters()), tokens_per_step=8, max_norm=1.0,
                                  peak_tflops_per_gpu=1e-3, registry=self.registry)

        class Slow(torch.utils.data.Dataset):
            def __len__(self):
                return 16

            def __getitem__(self, index):
                threading.Event().wait(0.005)
                return torch.randn(16)

        losses = []
        for batch in monitor.dataloader.wrap(torch.utils.data.DataLoader(Slow(), batch_size=8)):
            with monitor.step() as step:
                optimizer.zero_grad()
                step.loss = model(batch).square().mean()
                step.loss.backward()
                monitor.gradients.record_step(model)
                optimizer.step()
            losses.append(float(step.loss))
        metrics = monitor.metrics
        self.assertEqual(metrics.steps, 2)
        self.assertAlmostEqual(metrics.loss, losses[-1], 6)
        self.assertGreaterEqual(metrics.data_wait_seconds, 8 * 0.005)
        self.assertGreater(metrics.mfu, 0)
        self.assertGreater(metrics.gradient_norm, 0)

    def test_the_l9gpu_monitor(self):
        model = network()
        # No server listens there, which does not affect the measurement.
        with L9GPUTrainingMonitor("http://127.0.0.1:9", 70e9, 4096, 8, 989.0) as monitor:
            monitor.gradients.record_step(model, max_norm=1e-3)
            right = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            record = monitor.emit_step(torch.tensor(2.5), 1.0)
        self.assertAlmostEqual(record.gradient_norm, float(right), 5)
        self.assertEqual((record.gradient_clip_rate, record.gradient_nan_count, record.training_loss), (1.0, 0, 2.5))
        self.assertAlmostEqual(record.mfu, 0.2174, 4)


if __name__ == "__main__":
    unittest.main()
