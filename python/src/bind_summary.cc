// gpulens.inference: summaries of stored calls.
#include <gpulens/inference.h>

#include <cmath>
#include <optional>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "src/bind.h"
#include "src/inference_store.h"
#include "store/telemetry/rows.h"

namespace gpulens::python {
namespace {

std::optional<std::chrono::system_clock::time_point> At(const nb::object& when, const char* name) {
  if (when.is_none()) return std::nullopt;
  double seconds = 0;
  if (nb::hasattr(when, "total_seconds")) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    seconds = std::chrono::duration<double>(now).count() - nb::cast<double>(when.attr("total_seconds")());
  } else if (nb::hasattr(when, "timestamp")) {
    seconds = nb::cast<double>(when.attr("timestamp")());
  } else if (!nb::try_cast(when, seconds)) {
    throw nb::type_error(
        (std::string(name) + " must be a datetime, a timedelta (that long ago) or Unix seconds").c_str());
  }
  if (!(std::abs(seconds) < 9e9))
    Raise({Code::kInvalidArgument, std::string(name) + " is not a valid time: " + FloatText(seconds)});
  return telemetry::TimeOf(seconds);
}

GroupBy GroupOf(const std::optional<std::string>& name) {
  if (!name) return GroupBy::kAll;
  constexpr std::pair<const char*, GroupBy> kNames[] = {
      {"all", GroupBy::kAll},     {"model", GroupBy::kModel}, {"engine", GroupBy::kEngine},
      {"agent", GroupBy::kAgent}, {"batch", GroupBy::kBatch}, {"minute", GroupBy::kMinute},
      {"hour", GroupBy::kHour},   {"day", GroupBy::kDay}};
  for (const auto& [known, by] : kNames)
    if (*name == known) return by;
  Raise({Code::kInvalidArgument,
         "by must be model, engine, agent, batch, minute, hour or day; got \"" + *name + "\""});
}

std::string Print(const InferenceSummary& s) {
  return "InferenceSummary(" + (s.key.empty() ? std::string("all") : s.key) + ", " + std::to_string(s.calls) +
         " calls, " + std::to_string(s.errors) + " errors, " + std::to_string(s.cancelled) + " cancelled)";
}

}  // namespace

void BindSummary(nb::module_& m) {
  using C = CallMeans;
  nb::class_<C>(m, "CallMeans",
                "Means over calls of each call's own ratios and percentiles: a long call weighs as much as a "
                "short one. NaN: no call measured it.")
      .def_ro("itl_median_seconds", &C::itl_median_seconds)
      .def_ro("itl_p95_seconds", &C::itl_p95_seconds)
      .def_ro("tokens_per_second", &C::tokens_per_second)
      .def_ro("tokens_per_joule", &C::tokens_per_joule)
      .def_ro("joules_per_output_token", &C::joules_per_output_token)
      .def_ro("tokens_per_second_per_watt", &C::tokens_per_second_per_watt);
  using S = InferenceSummary;
  nb::class_<S>(
      m, "InferenceSummary",
      "Summary of a group of calls. Distributions are over the calls that measured the value (n is their "
      "number), ratios are ratios of sums over the calls that have both sides. NaN: no call measured it.")
      .def_ro("key", &S::key,
              "Key of the group: a model, an engine, …, or the Unix seconds at which a minute, hour or day "
              "begins.")
      .def_ro("calls", &S::calls)
      .def_ro("errors", &S::errors)
      .def_ro("cancelled", &S::cancelled)
      .def_ro("prompt_tokens", &S::prompt_tokens)
      .def_ro("prompt_tokens_evaluated", &S::prompt_tokens_evaluated)
      .def_ro("cached_prompt_tokens", &S::cached_prompt_tokens)
      .def_ro("completion_tokens", &S::completion_tokens)
      .def_ro("total_tokens", &S::total_tokens)
      .def_ro("latency_seconds", &S::latency_seconds)
      .def_ro("ttft_seconds", &S::ttft_seconds)
      .def_ro("itl_seconds", &S::itl_seconds, "Distribution of the calls' mean inter-token latencies.")
      .def_ro("energy_joules", &S::energy_joules)
      .def_ro("cost_usd", &S::cost_usd)
      .def_ro("gpu_utilization_ratio", &S::gpu_utilization_ratio)
      .def_ro("prefill_energy_joules", &S::prefill_energy_joules, "Sum over the calls, in joules.")
      .def_ro("decode_energy_joules", &S::decode_energy_joules, "Sum over the calls, in joules.")
      .def_ro("joules_per_output_token", &S::joules_per_output_token)
      .def_ro("output_tokens_per_second", &S::output_tokens_per_second)
      .def_ro("output_tokens_per_second_per_watt", &S::output_tokens_per_second_per_watt,
              "Ratio to the measured energy; for calls without it, to their mean watts times their seconds.")
      .def_ro("joules_per_token", &S::joules_per_token,
              "Energy of all calls with known energy, divided by all their prompt and completion tokens; "
              "calls without tokens are included.")
      .def_ro("call_means", &S::call_means, "Means of each call's own ratios and percentiles.")
      .def("__repr__", &Print);
}

void BindQuerying(nb::class_<Store>& store) {
  const auto summary = [](Store& self, nb::object since, nb::object until, std::optional<std::string> by,
                          std::string model, std::string engine, std::string agent, std::string batch_id,
                          bool warmup, std::optional<int64_t> token_counting_version, size_t limit) {
    const Query query{.since = At(since, "since"),
                      .until = At(until, "until"),
                      .by = GroupOf(by),
                      .model = std::move(model),
                      .engine = std::move(engine),
                      .agent = std::move(agent),
                      .batch_id = std::move(batch_id),
                      .warmup = warmup,
                      .token_counting_version = token_counting_version,
                      .limit = limit};
    Drain(5);
    return Take(WithoutGil([&] { return self->Summarize(query); }));
  };
  store.def(
      "summary", summary, nb::kw_only(), "since"_a = nb::none(), "until"_a = nb::none(), "by"_a = nb::none(),
      "model"_a = "", "engine"_a = "", "agent"_a = "", "batch_id"_a = "", "warmup"_a = false,
      "token_counting_version"_a = nb::none(), "limit"_a = 0,
      "Returns summaries of the stored calls, in groups.\n\nsince, until: a datetime, Unix seconds, or a "
      "timedelta (that long ago); both included.\nby: \"model\", \"engine\", \"agent\", \"batch\", "
      "\"minute\", \"hour\" or \"day\"; None: one group of all calls.\nmodel, engine, agent, batch_id: only "
      "calls with this value.\nwarmup: include warm-up calls.\ntoken_counting_version: only calls whose "
      "tokens were counted by this version; None: all.\nlimit: only this number of the largest groups; 0: "
      "all.\n\nFlushes before. Raises IoError and other classes of gpulens.errors when the file cannot be "
      "read.",
      nb::sig("def summary(self, *, since: datetime.datetime | datetime.timedelta | float | None = "
              "None, until: "
              "datetime.datetime | datetime.timedelta | float | None = None, by: str | None = None, "
              "model: str = '', engine: str = '', "
              "agent: str = '', batch_id: str = '', warmup: bool = False, token_counting_version: int | None "
              "= None, limit: int = 0) -> "
              "list[InferenceSummary]"));
}

}  // namespace gpulens::python
