#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.h"
#include "cli/common/output.h"
#include "cli/probe/probe_command.h"
#include "config/validate.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

using job_page::HistogramCopy;
using probes::AttachedTarget;
using probes::HostStatus;
using probes::ListedTarget;
using probes::Measuring;
using probes::ProbePoint;
using probes::ProbeReply;
using probes::ProcessCounts;
using probes::WordCount;

// "718 ns", "1.33 us", "4.1 ms".
std::string TimeText(double seconds) {
  const double ns = seconds * 1e9;
  if (ns <= 0) return kNoValue;
  if (ns < 999.5) return Printed("%.0f ns", ns);
  if (ns < 999.5e3) return Printed("%.3g us", ns * 1e-3);
  if (ns < 999.5e6) return Printed("%.3g ms", ns * 1e-6);
  return Printed("%.3g s", seconds);
}

std::string ShareText(uint64_t ppm) { return Printed("%.3g %%", static_cast<double>(ppm) * 1e-4); }

std::string LeftText(uint64_t ns) {
  if (ns == 0) return "no end";
  const uint64_t seconds = (ns + 999'999'999) / 1'000'000'000;
  if (seconds < 60) return std::to_string(seconds) + "s";
  return std::to_string(seconds / 60) + "m " + std::to_string(seconds % 60) + "s";
}

std::string MeasuringText(const AttachedTarget& target) {
  switch (target.measuring) {
    case Measuring::kExact: return "all";
    case Measuring::kSampled: return "1 of " + std::to_string(target.timed_one_in) + " timed";
    case Measuring::kCountOnly: return "counts alone";
    case Measuring::kWindows: return "in windows";
    case Measuring::kPaused: return "paused";
    case Measuring::kGivenUp: return "given up";
    case Measuring::kCount: break;
  }
  return "";
}

HistogramCopy Sum(const HistogramCopy& a, const HistogramCopy& b) {
  HistogramCopy out = a;
  out.count += b.count;
  out.sum_ns += b.sum_ns;
  for (size_t i = 0; i < out.buckets.size(); ++i) out.buckets[i] += b.buckets[i];
  return out;
}

std::string WordsText(const std::vector<WordCount>& counts) {
  std::string out;
  for (const WordCount& one : counts) {
    if (one.count == 0) continue;
    out += (out.empty() ? "" : ", ") + one.reason + " " + CountText(static_cast<int64_t>(one.count));
  }
  return out;
}

void AppendLine(std::string& out, std::string_view name, std::string_view text, size_t width) {
  out += Padded(name, 11, 1);
  AppendWrapped(out, text, 12, 12, width);
}

// Reasons of a target's functions, and the functions that have each.
std::map<std::string, std::vector<std::string>> ReasonsOf(const ListedTarget& target) {
  std::map<std::string, std::vector<std::string>> out;
  for (const ProbePoint& point : target.points) {
    if (!point.reason.empty())
      out[ProbeRefusalText(point.reason, point.sentence, point.row)].push_back(point.function);
  }
  return out;
}

void AppendHistogramJson(JsonObject& object, std::string_view key, const HistogramCopy& histogram) {
  if (histogram.count == 0) return;
  JsonObject inner(object.Key(key));
  inner.Count("count", histogram.count);
  inner.Number("sum_seconds", static_cast<double>(histogram.sum_ns) * 1e-9);
  inner.Number("p50_seconds", ProbeQuantile(histogram, 0.5));
  inner.Number("p99_seconds", ProbeQuantile(histogram, 0.99));
}

void AppendProcessJson(std::string& out, const ProcessCounts& process) {
  JsonObject object(out);
  object.Whole("pid", process.pid);
  object.Whole("target", process.root);
  object.Flag("exact", process.exact);
  object.Flag("all_timed", process.all_timed);
  for (size_t i = 0; i < probes::kLaunchTypes; ++i) {
    const std::string type(probes::LaunchTypeName(i));
    object.Count(type + "_launches", process.launches[i]);
    AppendHistogramJson(object, type + "_enqueue", process.enqueue[i]);
  }
  for (size_t i = 0; i < probes::kSyncTypes; ++i)
    AppendHistogramJson(object, std::string(probes::SyncTypeName(i)) + "_wait", process.sync_wait[i]);
  AppendHistogramJson(object, "data_wait", process.data_wait);
}

}  // namespace

double ProbeQuantile(const HistogramCopy& histogram, double quantile) noexcept {
  if (histogram.count == 0) return 0;
  const double wanted = quantile * static_cast<double>(histogram.count);
  double below = 0;
  for (size_t i = 0; i < histogram.buckets.size(); ++i) {
    const auto here = static_cast<double>(histogram.buckets[i]);
    if (here == 0 || below + here < wanted) {
      below += here;
      continue;
    }
    const double high =
        std::isfinite(job_page::BucketBound(i)) ? job_page::BucketBound(i) : job_page::BucketBound(i - 1);
    const double low = i == 0 ? high / 2 : job_page::BucketBound(i - 1);
    return (low + (high - low) * std::clamp((wanted - below) / here, 0.0, 1.0)) * 1e-9;
  }
  return 0;
}

std::string ProbeRefusalText(std::string_view reason, std::string_view sentence, std::string_view row) {
  std::string out(reason);
  if (!sentence.empty()) out.append(": ").append(sentence);
  if (!row.empty()) out.append(" (").append(row).append(")");
  return out;
}

std::string ProbeListText(const ProbeReply& reply, size_t width) {
  if (reply.targets.empty()) return "no process that you may look into has loaded CUDA or NCCL\n";
  TextTable table({"PID", "PROGRAM", "USER", "LIBRARY", "FUNCTIONS", "A CALL", "BUILD ID"});
  table.AlignRight(0);
  std::string notes;
  for (const ListedTarget& target : reply.targets) {
    const auto can = std::ranges::count(target.points, std::string(), &ProbePoint::reason);
    double cost_ns = 0;
    for (const ProbePoint& point : target.points) cost_ns = std::max(cost_ns, point.cost_ns);
    std::string functions =
        !target.reason.empty() ? "none" : std::to_string(can) + " of " + std::to_string(target.points.size());
    if (target.attached) functions += ", attached";
    table.Add({std::to_string(target.pid), target.name, UserName(target.user), target.library, functions,
               TimeText(cost_ns * 1e-9), target.build_id.substr(0, 12)});
    const std::string who = "▲ " + std::to_string(target.pid) + "  ";
    if (!target.reason.empty())
      AppendWrapped(notes += who, ProbeRefusalText(target.reason, target.sentence, target.row), WidthOf(who),
                    4, width);
    for (const auto& [reason, names] : ReasonsOf(target))
      AppendWrapped(notes += who, Joined(names, ", ") + ": " + reason, WidthOf(who), 4, width);
  }
  return table.Text(width) + notes;
}

std::string ProbeStatusText(const HostStatus& status, size_t width) {
  std::string out;
  std::string host = "process " + std::to_string(status.pid);
  if (status.reason.empty())
    host +=
        ", " + status.mechanism + ", " + Plural(status.links, "link of the kernel", "links of the kernel");
  AppendLine(out, "host", host, width);
  if (!status.reason.empty()) AppendLine(out, "refused", status.reason + ": " + status.sentence, width);
  AppendLine(out, "agent",
             status.agent_age_ns == 0
                 ? "none: nothing can be attached"
                 : "seen " + TimeText(static_cast<double>(status.agent_age_ns) * 1e-9) + " ago",
             width);
  AppendLine(out, "switch",
             status.switched_off ? "OFF: " + status.switch_file + " is there" +
                                       (status.switch_reason.empty() ? "" : ": " + status.switch_reason)
                                 : "probes may be attached",
             width);
  AppendLine(out, "budget",
             ShareText(status.thread_budget_ppm) + " of the thread that calls most, " +
                 ShareText(status.host_budget_ppm) + " of a CPU for all",
             width);
  if (status.entry_cost_ns > 0) {
    AppendLine(out, "cost",
               TimeText(status.entry_cost_ns * 1e-9) + " a counted call, " +
                   TimeText(status.pair_cost_ns * 1e-9) + " a timed one, measured here",
               width);
  }
  for (const auto& [name, counts] :
       std::initializer_list<std::pair<const char*, const std::vector<WordCount>*>>{
           {"lost", &status.lost}, {"detached", &status.detached}, {"refusals", &status.refused}}) {
    const std::string words = WordsText(*counts);
    if (!words.empty()) AppendLine(out, name, words, width);
  }
  if (status.targets.empty()) return out + "\nno process has probes\n";
  TextTable table({"PID", "PROBES", "MEASURED", "LAUNCHES", "P50", "P99", "WAITS", "LEFT", "BY"});
  for (const size_t column : {size_t{0}, size_t{3}, size_t{4}, size_t{5}, size_t{6}})
    table.AlignRight(column);
  std::string notes;
  for (const AttachedTarget& target : status.targets) {
    uint64_t launches = 0, waits = 0;
    bool exact = true;
    HistogramCopy enqueue;
    for (const ProcessCounts& process : status.processes) {
      if (process.root != target.pid) continue;
      exact = exact && process.exact;
      waits += process.data_wait.count;
      for (const uint64_t one : process.launches) launches += one;
      for (const HistogramCopy& one : process.enqueue) enqueue = Sum(enqueue, one);
    }
    table.Add({std::to_string(target.pid), probes::ProbeNames(target.probes), MeasuringText(target),
               (exact ? "" : "~") + CountText(static_cast<int64_t>(launches)),
               TimeText(ProbeQuantile(enqueue, 0.5)), TimeText(ProbeQuantile(enqueue, 0.99)),
               (target.probes & probes::kDataloadProbe) ? CountText(static_cast<int64_t>(waits)) : kNoValue,
               LeftText(target.left_ns), target.by_configuration ? "config" : UserName(target.requested_by)});
    const std::string who = "▲ " + std::to_string(target.pid) + "  ";
    if (!target.trouble.empty()) AppendWrapped(notes += who, target.trouble, WidthOf(who), 4, width);
  }
  return out + "\n" + table.Text(width) + notes;
}

std::string ProbeListJson(const ProbeReply& reply) {
  return JsonDocumentText("gpulens.probe_list/1", [&](JsonObject& root) {
    const auto add = [](std::string& out, const ListedTarget& target) {
      JsonObject object(out);
      object.Whole("pid", target.pid);
      object.Count("uid", target.user);
      object.TextIfAny("program", target.name);
      object.TextIfAny("library", target.library);
      object.TextIfAny("build_id", target.build_id);
      object.Flag("attached", target.attached);
      probes::AppendRefusal(object, target.reason, target.sentence, target.row);
      object.List("functions", target.points, [](std::string& to, const ProbePoint& point) {
        JsonObject item(to);
        item.Text("function", point.function);
        item.Flag("can", point.reason.empty());
        if (point.cost_ns > 0) item.Number("cost_ns", point.cost_ns);
        probes::AppendRefusal(item, point.reason, point.sentence, point.row);
      });
    };
    root.List("processes", reply.targets, add, "\n", "\n");
  });
}

std::string ProbeStatusJson(const HostStatus& status) {
  return JsonDocumentText("gpulens.probe_status/1", [&](JsonObject& root) {
    root.Whole("pid", status.pid);
    root.TextIfAny("mechanism", status.mechanism);
    probes::AppendRefusal(root, status.reason, status.sentence, "");
    root.Flag("switched_off", status.switched_off);
    root.TextIfAny("switch_file", status.switch_file);
    root.TextIfAny("switch_reason", status.switch_reason);
    root.Count("links", status.links);
    root.Flag("agent", status.agent_age_ns != 0);
    root.Number("thread_budget", static_cast<double>(status.thread_budget_ppm) * 1e-6);
    root.Number("host_budget", static_cast<double>(status.host_budget_ppm) * 1e-6);
    if (status.entry_cost_ns > 0) root.Number("counted_call_ns", status.entry_cost_ns);
    if (status.pair_cost_ns > 0) root.Number("timed_call_ns", status.pair_cost_ns);
    probes::AppendWords(root, "events", status.events);
    probes::AppendWords(root, "cost_ns", status.cost_ns);
    probes::AppendWords(root, "lost", status.lost);
    probes::AppendWords(root, "detached", status.detached);
    probes::AppendWords(root, "refused", status.refused);
    root.List(
        "targets", status.targets,
        [](std::string& out, const AttachedTarget& target) {
          JsonObject object(out);
          object.Whole("pid", target.pid);
          object.Count("uid", target.user);
          object.Count("requested_by_uid", target.requested_by);
          object.Flag("by_configuration", target.by_configuration);
          object.Text("probes", probes::ProbeNames(target.probes));
          object.Text("measuring", probes::MeasuringName(target.measuring));
          object.Count("timed_one_in", target.timed_one_in);
          if (target.left_ns != 0) object.Number("left_seconds", static_cast<double>(target.left_ns) * 1e-9);
          object.Number("share", static_cast<double>(target.share_ppm) * 1e-6);
          object.TextIfAny("trouble", target.trouble);
        },
        "\n", "\n");
    root.List("processes", status.processes, AppendProcessJson, "\n", "\n");
  });
}

}  // namespace gpulens
