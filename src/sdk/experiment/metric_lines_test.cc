#include "sdk/experiment/metric_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "store/experiments/run_rows.h"

namespace gpulens::metric_lines {
namespace {

using ::testing::ElementsAre;

// "loss=0.5 lr=0.001 @12 e3 bar 12/100": all that was found in a line, as one text.
std::string Found(std::string_view text) {
  ParsedLine line = ParseLine(text);
  std::string out;
  for (const ParsedMetric& metric : line.metrics) {
    char number[40];
    std::snprintf(number, sizeof number, "%.9g", metric.value);
    out += metric.key + "=" + number + " ";
  }
  if (line.step) out += "@" + std::to_string(*line.step) + " ";
  if (line.epoch) out += "e" + std::to_string(*line.epoch) + " ";
  if (line.bar) out += "bar " + std::to_string(line.at) + "/" + std::to_string(line.total) + " ";
  if (!out.empty()) out.pop_back();
  return out;
}

struct Case {
  const char* name;
  const char* text;
  const char* found;
};

class LineTest : public ::testing::TestWithParam<Case> {};

TEST_P(LineTest, ParsesLine) { EXPECT_EQ(Found(GetParam().text), GetParam().found) << GetParam().text; }

std::string NameOfCase(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

const Case kDictionaries[] = {
    {"HfTrainer", "{'loss': 2.1, 'grad_norm': 0.5, 'learning_rate': 5e-05, 'epoch': 0.01}",
     "loss=2.1 grad_norm=0.5 learning_rate=5e-05 epoch=0.01"},
    {"HfWithTexts", "{'loss': '2.1', 'epoch': '0.01', 'name': 'x'}", "loss=2.1 epoch=0.01"},
    {"HfEvaluation",
     "{'eval_loss': 1.25, 'eval_runtime': 3.2, 'eval_samples_per_second': 942.1, 'epoch': 1.0}",
     "eval_loss=1.25 eval_runtime=3.2 eval_samples_per_second=942.1 epoch=1"},
    {"Json", R"({"step": 120, "loss": 3.2e-4, "epoch": 2, "tags": ["a", 1], "ok": true, "none": null})",
     "loss=0.00032 epoch=2 @120 e2"},
    {"JsonNested", R"({"train": {"loss": 0.5, "acc": {"top1": 0.9}}, "global_step": 7})",
     "train/loss=0.5 train/acc/top1=0.9 @7"},
    {"JsonLog", R"({"level":"info","ts":1700000000.1,"msg":"epoch done","loss":0.25})", "loss=0.25"},
    {"AfterText", "INFO:root:step 5 {'loss': 0.3}", "loss=0.3"},
    {"Numpy", "{'loss': np.float64(0.31), 'acc': tensor(0.9, device='cuda:0')}", "loss=0.31 acc=0.9"},
    {"NanAndInf", "{'loss': nan, 'a': inf, 'b': -Infinity, 'c': NaN}", "loss=nan a=inf b=-inf c=nan"},
    {"CommaAtTheEnd", "{'loss': 1,}", "loss=1"},
    {"EscapedKey", R"({"a\"b": 1})", "a\"b=1"},
    {"NotClosed", "{'loss': 2.1, 'x': ", ""},
    {"EmptyAndThenOne", "{} {'loss': 1}", "loss=1"},
    {"ControlByteInAKey", "{'a\x01': 1, 'b': 2}", "b=2"},
    {"BadUtf8InAKey", "{'\xff': 1, 'b': 2}", "b=2"},
    {"TooDeep", "{'a': {'a': {'a': {'a': {'a': {'a': 1}}}}}}", "a/a/a/a/a=1"},
};
INSTANTIATE_TEST_SUITE_P(Dictionary, LineTest, ::testing::ValuesIn(kDictionaries), NameOfCase);

const Case kPairs[] = {
    {"Plain", "loss: 0.5, accuracy: 0.9", "loss=0.5 accuracy=0.9"},
    {"Scientific", "loss: 3.2e-4", "loss=0.00032"},
    {"ScientificCapital", "lr=1E-05", "lr=1e-05"},
    {"Negative", "reward: -12.5 kl=-0.1", "reward=-12.5 kl=-0.1"},
    {"Plus", "score=+1.5", "score=1.5"},
    {"Nan", "loss: nan", "loss=nan"},
    {"Inf", "loss=inf grad_norm=-inf", "loss=inf grad_norm=-inf"},
    {"PointFirst", "loss=.5", "loss=0.5"},
    {"Huge", "loss=1e999 lr=1e-999", "loss=inf lr=0"},
    {"TrainLoss", "train_loss: 0.25 val_loss: 0.5", "train_loss=0.25 val_loss=0.5"},
    {"WordsBefore", "Train Loss: 0.25 | Val Loss: 0.5", "train_loss=0.25 val_loss=0.5"},
    {"Slashes", "train/loss=0.25, eval/acc@5=0.9", "train/loss=0.25 eval/acc@5=0.9"},
    {"AnyKeyWithEquals", "foo=1 bar = 2.5", "foo=1 bar=2.5"},
    {"AnyKeyAtTheBegin", "foo: 1, bar: 2", "foo=1 bar=2"},
    {"NanoGpt", "iter 100: loss 2.4535, time 245.12ms, mfu 12.34%", "loss=2.4535 mfu=12.34 @100"},
    {"NanoGptEval", "step 250: train loss 2.5459, val loss 2.5486", "train_loss=2.5459 val_loss=2.5486 @250"},
    {"PytorchTutorial", "Epoch [3/10], Step [100/600], Loss: 0.3521", "epoch=3 loss=0.3521 @100 e3"},
    {"PytorchMnist", "Train Epoch: 1 [6400/60000 (11%)]\tLoss: 0.512", "epoch=1 loss=0.512 e1"},
    {"MnistTest", "Test set: Average loss: 0.0546, Accuracy: 9823/10000 (98%)",
     "average_loss=0.0546 accuracy=0.9823"},
    {"Keras", "469/469 - 2s - loss: 0.25 - accuracy: 0.92 - val_loss: 0.13",
     "loss=0.25 accuracy=0.92 val_loss=0.13"},
    {"KerasEpoch", "Epoch 3/10", "epoch=3 e3"},
    {"Meters", "loss 0.53 (0.61) acc1 75.00 (70.31)", "loss=0.53 acc1=75"},
    {"LogPrefix", "2026-11-22 19:03:11,120 INFO trainer.py:120 - step=5 loss=0.3", "loss=0.3 @5"},
    {"Percent", "acc: 98.5%", "acc=98.5"},
    {"Milliseconds", "forward=12.5ms, total: 2s", "forward_seconds=0.0125 total_seconds=2"},
    {"Colours", "\x1b[32mloss\x1b[0m: \x1b[1m0.5\x1b[0m", "loss=0.5"},
    {"Tensor", "loss=tensor(0.31, device='cuda:0', grad_fn=<NllLossBackward0>)", "loss=0.31"},
    {"TwiceIsOnce", "loss=1 loss=2", "loss=1"},
    {"GlobalStep", "global_step=120 loss=1", "loss=1 @120"},
    {"Throughput", "throughput: 942 samples/s", "throughput=942 samples_per_second=942"},
    {"SamplesPerSecond", "speed is 942 samples/s now", "samples_per_second=942"},
    {"TokensWithThousands", "1,234,567 tokens/s", "tokens_per_second=1234567"},
    {"TokensInThousands", "12.5k tokens/sec", "tokens_per_second=12500"},
    {"Tok", "85.3 tok/s", "tokens_per_second=85.3"},
    {"SecondsPerIteration", "2.0 s/it", "iterations_per_second=0.5"},
};
INSTANTIATE_TEST_SUITE_P(Pairs, LineTest, ::testing::ValuesIn(kPairs), NameOfCase);

const Case kBars[] = {
    {"Tqdm", " 12%|█▏        | 12/100 [00:01<00:09,  9.50it/s, loss=0.3, lr=1e-5]",
     "iterations_per_second=9.5 loss=0.3 lr=1e-05 bar 12/100"},
    {"TqdmSlow", "  1%|▏ | 1/100 [00:02<03:18,  2.00s/it]", "iterations_per_second=0.5 bar 1/100"},
    {"TqdmUnknownRate", "  0%|          | 0/100 [00:00<?, ?it/s]", "bar 0/100"},
    {"TqdmTitle", "Training: 100%|██████| 938/938 [00:10<00:00, 93.1it/s, loss=nan]",
     "iterations_per_second=93.1 loss=nan bar 938/938"},
    {"Lightning", "Epoch 3:  45%|████▌     | 45/100 [00:10<00:12,  4.40it/s, v_num=0, train_loss=0.123]",
     "iterations_per_second=4.4 v_num=0 train_loss=0.123 epoch=3 e3 bar 45/100"},
    {"NoTotal", "123it [00:05, 24.3it/s, loss=0.3]", "iterations_per_second=24.3 loss=0.3 bar 123/0"},
    {"Download", "model.bin:  45%|████▌     | 1.20G/3.40G [00:10<00:20, 120MB/s]", ""},
    {"Cut", " 12%|█▏        | 12/1", ""},
};
INSTANTIATE_TEST_SUITE_P(Bar, LineTest, ::testing::ValuesIn(kBars), NameOfCase);

const Case kNone[] = {
    {"Empty", "", ""},
    {"Words", "Loading the model", ""},
    {"Address", "listening on localhost:8080", ""},
    {"Url", "see http://localhost:8080/x?loss=3", ""},
    {"Time", "started at 12:30:01", ""},
    {"Date", "loss: 2026-11-22", ""},
    {"Version", "torch: 2.1.0", ""},
    {"Traceback", "  File \"train.py\", line 12, in <module>", ""},
    {"FileAndLine", "train.py:12: warning", ""},
    {"Sentence", "Found: 5 files", ""},
    {"LossInASentence", "the loss is high", ""},
    {"Comparison", "a == 5", ""},
    {"Hexadecimal", "loss=0x1f", ""},
    {"Unit", "memory: 10.5GB", ""},
    {"Pid", "pid=123 port: 80", ""},
    {"NotANumber", "loss: high", ""},
    {"Fraction", "batch: 5/100", ""},
    {"Device", "cuda:0", ""},
};
INSTANTIATE_TEST_SUITE_P(None, LineTest, ::testing::ValuesIn(kNone), NameOfCase);

TEST(MetricLines, HasBounds) {
  std::string many = "{";
  for (int i = 0; i < 200; ++i) many += "'k" + std::to_string(i) + "': 1, ";
  EXPECT_EQ(ParseLine(many + "}").metrics.size(), kMostMetrics);
  EXPECT_TRUE(ParseLine(std::string(kMostLineBytes + 1, 'x')).empty());
  EXPECT_EQ(ParseLine(std::string(experiments::kMostKeyBytes, 'k') + "=1").metrics.size(), 1U);
  EXPECT_TRUE(ParseLine(std::string(experiments::kMostKeyBytes + 1, 'k') + "=1").empty());
  EXPECT_TRUE(ParseLine(std::string(kMostLineBytes, '{')).empty());
  EXPECT_TRUE(ParseLine("step=1e300").empty());
}

TEST(LineSplitter, SplitsAtNewlinesAndReturnsInAnyPieces) {
  const std::string text = "one\ntwo\rthree\r\n\nfour";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    LineSplitter splitter;
    std::vector<std::string> lines;
    auto keep = [&](std::string_view line) { lines.emplace_back(line); };
    for (size_t at = 0; at < text.size(); at += piece) splitter.Add(text.substr(at, piece), keep);
    splitter.Finish(keep);
    EXPECT_THAT(lines, ElementsAre("one", "two", "three", "four")) << piece;
  }
}

TEST(LineSplitter, DropsOnlyALineThatIsTooLong) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  for (int i = 0; i < 100; ++i) splitter.Add(std::string(1000, 'x'), keep);
  splitter.Add("\nshort\n", keep);
  splitter.Add(std::string(kMostLineBytes + 1, 'x') + "\n", keep);
  splitter.Add(std::string(kMostLineBytes + 1, 'x'), keep);
  splitter.Finish(keep);
  EXPECT_THAT(lines, ElementsAre("short"));
}

struct Tracked {
  void Add(std::string_view line) {
    tracker.Add(line, [&](const std::string& key, double value, std::optional<int64_t> step) {
      char number[40];
      std::snprintf(number, sizeof number, "%g", value);
      points.push_back(key + "=" + number + "@" + (step ? std::to_string(*step) : "-"));
    });
  }
  MetricTracker tracker;
  std::vector<std::string> points;
};

TEST(MetricTracker, CarriesStepsOver) {
  Tracked run;
  run.Add("loss=3");
  run.Add("step 10");
  run.Add("loss=2");
  run.Add("loss=1 step=20");
  run.Add("val_loss=1.5");
  EXPECT_THAT(run.points, ElementsAre("loss=3@-", "loss=2@10", "loss=1@20", "val_loss=1.5@20"));
}

TEST(MetricTracker, UsesAnEpochWithoutOtherSteps) {
  Tracked run;
  run.Add("Epoch 3/10");
  run.Add("loss: 0.5");
  run.Add("{'loss': 0.25, 'epoch': 4.0}");
  run.Add("step=100 loss=0.1");
  run.Add("Epoch 5: loss=0.2");
  EXPECT_THAT(run.points, ElementsAre("epoch=3@3", "loss=0.5@3", "loss=0.25@3", "epoch=4@3", "loss=0.1@100",
                                      "epoch=5@100", "loss=0.2@100"));
}

TEST(MetricTracker, BarsContinueAndReportEachPositionOnce) {
  Tracked run;
  run.Add(" 50%|█ | 1/2 [00:01<00:01, 1.0it/s, loss=4]");
  run.Add(" 50%|█ | 1/2 [00:01<00:01, 1.0it/s, loss=4]");
  run.Add("100%|██| 2/2 [00:02<00:00, 1.0it/s, loss=3]");
  run.Add("100%|██| 5/5 [00:02<00:00, 2.0it/s, val_loss=9]");
  run.Add(" 50%|█ | 1/2 [00:01<00:01, 1.0it/s, loss=2]");
  EXPECT_THAT(run.points, ElementsAre("iterations_per_second=1@1", "loss=4@1", "iterations_per_second=1@2",
                                      "loss=3@2", "iterations_per_second=2@5", "val_loss=9@5",
                                      "iterations_per_second=1@3", "loss=2@3"));
}

}  // namespace
}  // namespace gpulens::metric_lines
