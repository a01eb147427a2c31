// How fast a page is read: the first time, again with other numbers, and with some lines new.
// Bytes are those of the page; items are samples. Two pages that differ take turns, so that no scrape
// sees the text of the one before. Budget: design, the parser's row.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {
namespace {

struct PageText {
  std::vector<std::string> comments;  // of line i, may be empty
  std::vector<std::string> keys, numbers;

  void Add(std::string comment, std::string key, std::string number) {
    comments.push_back(std::move(comment));
    keys.push_back(std::move(key));
    numbers.push_back(std::move(number));
  }
  std::string Text() const {
    std::string out;
    for (size_t i = 0; i < keys.size(); ++i) out += comments[i] + keys[i] + " " + numbers[i] + "\n";
    return out;
  }
};

std::string Head(const std::string& name, const char* type) {
  return "# HELP " + name + " What " + name + " counts, in the words of its exporter.\n# TYPE " + name + " " +
         type + "\n";
}

std::string Count(std::mt19937& random) {
  auto digits = random() % 6;
  decltype(digits) limit = 10;
  while (digits-- > 0) limit *= 10;
  return std::to_string(random() % limit) + ".0";
}

std::string Sum(std::mt19937& random) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", static_cast<double>(random()) / 977.0);
  return text;
}

// An engine's page: mostly histograms of 20 buckets, for several models and ranks. About 10 MB.
PageText EnginePage(int engines) {
  constexpr const char* kHistograms[] = {
      "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
      "vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds", "vllm:iteration_tokens_total"};
  constexpr const char* kGauges[] = {"vllm:num_requests_running",    "vllm:num_requests_waiting",
                                     "vllm:kv_cache_usage_perc",     "vllm:prompt_tokens_total",
                                     "vllm:generation_tokens_total", "vllm:request_success_total"};
  constexpr const char* kBounds[] = {"0.001", "0.005", "0.01", "0.02", "0.04", "0.06", "0.08",
                                     "0.1",   "0.25",  "0.5",  "0.75", "1.0",  "2.5",  "5.0",
                                     "7.5",   "10.0",  "20.0", "40.0", "80.0", "+Inf"};
  std::mt19937 random(1);
  PageText page;
  auto labels = [](int engine) {
    return "engine=\"" + std::to_string(engine % 8) + "\",model_name=\"meta-llama/Llama-3.1-8B-" +
           std::to_string(engine / 8) + "\"";
  };
  for (const char* name : kGauges) {
    for (int i = 0; i < engines; ++i) {
      page.Add(i == 0 ? Head(name, "gauge") : "", std::string(name) + "{" + labels(i) + "}", Count(random));
    }
  }
  for (const char* name : kHistograms) {
    std::string head = Head(name, "histogram"), base = name;
    for (int i = 0; i < engines; ++i) {
      for (const char* bound : kBounds) {
        page.Add(head,
                 base + "_bucket{" + labels(i).substr(0, 10) + ",le=\"" + bound + "\"" +
                     labels(i).substr(10) + "}",
                 Count(random));
        head.clear();
      }
      page.Add("", base + "_count{" + labels(i) + "}", Count(random));
      page.Add("", base + "_sum{" + labels(i) + "}", Sum(random));
    }
  }
  return page;
}

// 8 GPUs and 25 fields with long label sets, as dcgm-exporter writes them. About 50 KB.
PageText GpuPage() {
  std::mt19937 random(2);
  PageText page;
  for (int field = 0; field < 25; ++field) {
    std::string name = "DCGM_FI_DEV_FIELD_NUMBER_" + std::to_string(field);
    for (int gpu = 0; gpu < 8; ++gpu) {
      std::string index = std::to_string(gpu);
      page.Add(gpu == 0 ? Head(name, "gauge") : "",
               name + "{gpu=\"" + index + "\",UUID=\"GPU-5a1b0000-1f2e-4a5b-8c9d-abc00000000" + index +
                   "\",pci_bus_id=\"00000000:1B:00.0\",device=\"nvidia" + index +
                   "\",modelName=\"NVIDIA H100 80GB "
                   "HBM3\",Hostname=\"gpu-node-0017\",DCGM_FI_DRIVER_VERSION=\"570.86.15\"}",
               field % 3 == 0 ? Sum(random).substr(0, 8) : std::to_string(random() % 2000));
    }
  }
  return page;
}

PageText Changed(PageText page, unsigned one_in) {
  std::mt19937 random(3);
  for (std::string& number : page.numbers) {
    if (random() % one_in == 0) number = number.size() > 12 ? Sum(random) : Count(random);
  }
  return page;
}

PageText WithNewLines(PageText page, unsigned one_in, const std::string& mark) {
  std::mt19937 random(4);
  for (std::string& key : page.keys) {
    if (random() % one_in == 0) key.insert(key.size() - 1, ",pod=\"" + mark + "\"");
  }
  return page;
}

PageText Shuffled(PageText page) {
  std::mt19937 random(5);
  for (size_t i = page.keys.size(); i > 1; --i) {
    size_t j = random() % i;
    std::swap(page.keys[i - 1], page.keys[j]);
    std::swap(page.numbers[i - 1], page.numbers[j]);
  }
  return page;
}

ExpositionLimits Wide() {
  ExpositionLimits limits;
  limits.samples = 1'000'000;
  return limits;
}

void Report(benchmark::State& state, const PageText& page, size_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(page.keys.size()));
}

PageText Make(int64_t which) { return which == 0 ? EnginePage(900) : GpuPage(); }

void BM_ExpositionFirst(benchmark::State& state) {
  PageText page = Make(state.range(0));
  std::string text = page.Text();
  size_t memory = 0;
  for (auto _ : state) {
    ScrapedPage scraped(Wide());
    CHECK(scraped.Update(text, ExpositionFormat::kText004).ok());
    memory = scraped.memory_bytes();
  }
  Report(state, page, text.size());
  state.counters["B/line"] = static_cast<double>(memory) / static_cast<double>(page.keys.size());
}
BENCHMARK(BM_ExpositionFirst)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void BM_ExpositionParse(benchmark::State& state) {
  struct Sink final : ExpositionHandler {
    void OnFamily(uint32_t, const ExpositionFamily&) override {}
    void OnSample(const SampleView& sample) override { sum += sample.value; }
    double sum = 0;
  } sink;
  PageText page = Make(state.range(0));
  std::string text = page.Text();
  for (auto _ : state) CHECK(ParseExposition(text, ExpositionFormat::kText004, Wide(), sink).ok());
  benchmark::DoNotOptimize(sink.sum);
  Report(state, page, text.size());
}
BENCHMARK(BM_ExpositionParse)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

// Pages take turns, each with the numbers of `one` or of `other`.
void TakeTurns(benchmark::State& state, const PageText& one, const PageText& other) {
  std::array<std::string, 2> texts = {one.Text(), other.Text()};
  ScrapedPage scraped(Wide());
  for (const std::string& text : texts) CHECK(scraped.Update(text, ExpositionFormat::kText004).ok());
  size_t turn = 0, bytes = 0;
  for (auto _ : state) {
    const std::string& text = texts[turn++ & 1];
    bytes += text.size();
    CHECK(scraped.Update(text, ExpositionFormat::kText004).ok());
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(one.keys.size()));
  const auto& work = scraped.work();
  state.counters["steady"] =
      static_cast<double>(work.steady_updates) / static_cast<double>(state.iterations() + 2);
  state.counters["parsed"] =
      static_cast<double>(work.parsed_lines) / static_cast<double>(state.iterations() + 2);
}

void BM_ExpositionSteadyAllChanged(benchmark::State& state) {
  PageText page = Make(state.range(0));
  TakeTurns(state, page, Changed(page, 1));
}
BENCHMARK(BM_ExpositionSteadyAllChanged)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void BM_ExpositionSteadyTenthChanged(benchmark::State& state) {
  PageText page = Make(state.range(0));
  TakeTurns(state, page, Changed(page, 10));
}
BENCHMARK(BM_ExpositionSteadyTenthChanged)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void BM_ExpositionHundredthNew(benchmark::State& state) {
  PageText page = Make(state.range(0));
  TakeTurns(state, WithNewLines(page, 100, "new-1"), WithNewLines(Changed(page, 10), 100, "new-2"));
}
BENCHMARK(BM_ExpositionHundredthNew)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void BM_ExpositionAllMoved(benchmark::State& state) {
  PageText page = Make(state.range(0));
  TakeTurns(state, page, Shuffled(Changed(page, 1)));
}
BENCHMARK(BM_ExpositionAllMoved)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gpulens
