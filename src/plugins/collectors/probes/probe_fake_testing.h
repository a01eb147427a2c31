// A backend without a kernel, for tests. Its fields are what the next call answers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugins/collectors/probes/probe_backend.h"

namespace gpulens::probes {

class FakeProbeBackend final : public ProbeBackend {
 public:
  struct Process {
    uint32_t user = 1000;
    std::string cgroup = "/user.slice", program = "python3";
    std::string refusal, sentence, row;
    bool ended = false;
    ProcessCounts counts;
    Reading reading;
  };

  Ability ability{
      .mechanism = "session", .reason = {}, .sentence = {}, .entry_cost_ns = 700, .pair_cost_ns = 1300};
  std::map<int64_t, Process> processes;
  std::map<int64_t, Order> attached;
  std::vector<Change> changes;  // reported once
  std::vector<WordCount> lost;
  Limits limits;
  int opened = 0, ticks = 0;

  Ability Open(const Limits& given) override {
    limits = given;
    ++opened;
    return ability;
  }
  Result<std::vector<ListedTarget>> List(int64_t pid) override {
    std::vector<ListedTarget> out;
    for (const auto& [number, process] : processes) {
      if (pid != 0 && pid != number) continue;
      ListedTarget& target = out.emplace_back();
      target.pid = number;
      target.user = process.user;
      target.name = process.program;
      target.library = "libcuda.so.1";
      target.points = {{.function = "cuLaunchKernel",
                        .cost_ns = 700,
                        .reason = process.refusal,
                        .sentence = process.sentence,
                        .row = process.row}};
    }
    return out;
  }
  std::optional<uint32_t> UserOf(int64_t pid) const override {
    const auto at = processes.find(pid);
    return at == processes.end() ? std::nullopt : std::optional(at->second.user);
  }
  std::string CgroupOf(int64_t pid) const override { return processes.at(pid).cgroup; }
  std::string ProgramOf(int64_t pid) const override { return processes.at(pid).program; }
  Outcome Attach(const Order& order, Instant) override {
    const Process& process = processes.at(order.pid);
    if (!process.refusal.empty())
      return {.refusal = process.refusal,
              .sentence = process.sentence,
              .row = process.row,
              .probes = 0,
              .trouble = {}};
    attached[order.pid] = order;
    return {.refusal = {}, .sentence = {}, .row = {}, .probes = order.probes, .trouble = {}};
  }
  void Detach(int64_t pid) override { attached.erase(pid); }
  void DetachAll() override { attached.clear(); }
  size_t links() const override { return attached.size(); }
  void Tick(Instant, Round& out) override {
    ++ticks;
    for (const auto& [pid, order] : attached) {
      Process& process = processes.at(pid);
      process.reading.pid = pid;
      process.reading.ended = process.ended;
      process.counts.pid = process.counts.root = pid;
      out.targets.push_back(process.reading);
      out.processes.push_back(process.counts);
    }
    out.changes = std::exchange(changes, {});
    out.lost = lost;
    uint64_t events = 0;
    for (const auto& [pid, process] : processes) events += process.counts.launches[0];
    out.events = {{.probe = "cuda", .reason = {}, .count = events}};
    out.cost_ns = {{.probe = "cuda", .reason = {}, .count = events * 700}};
  }
};

}  // namespace gpulens::probes
