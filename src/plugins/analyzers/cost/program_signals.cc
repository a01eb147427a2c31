#include "plugins/analyzers/cost/program_signals.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "catalog/training.h"

namespace gpulens::cost {
namespace {

using ledger::Cause;

constexpr double kMostlyWaiting = 0.5;

// The sum of fresh values; none when one is missing.
std::optional<double> SumOf(const Frame& frame, const std::vector<uint32_t>& slots) {
  double sum = 0;
  for (uint32_t slot : slots) {
    if (frame.quality[slot] != Quality::kOk) return std::nullopt;
    const SeriesInfo& info = (*frame.layout)[slot];
    const Cell cell = frame.cells[info.first_cell];
    sum += info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
  }
  return slots.empty() ? std::nullopt : std::optional(sum);
}

}  // namespace

void ProgramSignals::Plan(const Frame& frame, Source& source) {
  std::vector<Program> before = std::exchange(source.programs, {});
  source.layout_id = frame.layout->id();
  for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame.layout)[slot];
    // Rows of programs are copies of the catalogue's.
    if (!info.desc || !info.entity || info.entity->type != "process" || info.cells() != 1) continue;
    auto list = &Program::steps;
    if (info.desc->name == kTrainingDataloaderWaitTime.name) list = &Program::waits;
    else if (info.desc->name == kTrainingCheckpointSaveDuration.name) list = &Program::checkpoints;
    else if (info.desc->name != kTrainingSteps.name) continue;
    const AttributeSet::Value value = info.attributes.Find("process.pid", int64_t{0});
    const int64_t* pid = std::get_if<int64_t>(&value);
    if (!pid || *pid <= 0) continue;
    auto program = std::ranges::find(source.programs, *pid, &Program::pid);
    if (program == source.programs.end()) {
      if (source.programs.size() >= kMostPrograms) continue;
      program =
          source.programs.insert(program, Program{.pid = *pid, .steps = {}, .waits = {}, .checkpoints = {}});
    }
    ((*program).*list).push_back(slot);
  }
  for (Program& program : source.programs) {
    auto old = std::ranges::find(before, program.pid, &Program::pid);
    if (old == before.end()) continue;
    program.sent_ns = old->sent_ns;
    program.sent = old->sent;
    if (old->steps.size() != program.steps.size() || old->waits.size() != program.waits.size()) continue;
    program.last_steps = old->last_steps;
    program.last_wait_s = old->last_wait_s;
    program.last_checkpoint_s = old->last_checkpoint_s;
    program.looked_ns = old->looked_ns;
  }
}

void ProgramSignals::Send(Program& program, Cause cause, int64_t at_ns) {
  if (cause == program.sent && at_ns - program.sent_ns < kRepeatNs) return;
  program.sent = cause;
  program.sent_ns = at_ns;
  out_.push_back({.pid = program.pid, .at_ns = at_ns, .waits = cause});
}

void ProgramSignals::Look(const Frame& frame, Program& program) {
  const int64_t now = frame.read_at.boot_ns;
  if (now - program.looked_ns < kLookNs) return;
  const std::optional<double> steps = SumOf(frame, program.steps), wait_s = SumOf(frame, program.waits);
  const std::optional<double> checkpoint_s = SumOf(frame, program.checkpoints);
  const double elapsed_s = static_cast<double>(now - std::exchange(program.looked_ns, now)) * 1e-9;
  const double before_steps = std::exchange(program.last_steps, steps.value_or(-1));
  const double before_wait_s = std::exchange(program.last_wait_s, wait_s.value_or(-1));
  const double before_checkpoint_s = std::exchange(program.last_checkpoint_s, checkpoint_s.value_or(-1));
  if (checkpoint_s && before_checkpoint_s >= 0 && *checkpoint_s != before_checkpoint_s) {
    // The duration of the last one, which has ended since the last look.
    const double longest = *checkpoint_s / static_cast<double>(program.checkpoints.size());
    out_.push_back({.pid = program.pid,
                    .at_ns = now - static_cast<int64_t>(std::min(longest, 3600.0) * 1e9),
                    .waits = Cause::kCheckpoint});
    program.sent = Cause::kCheckpoint;
  }
  if (steps && *steps == 0) return Send(program, Cause::kStartup, now);
  if (wait_s && before_wait_s >= 0 && *wait_s >= before_wait_s) {
    const double ranks = static_cast<double>(program.waits.size());
    if (*wait_s - before_wait_s > kMostlyWaiting * elapsed_s * ranks)
      return Send(program, Cause::kInputWait, now);
  }
  if (steps && before_steps >= 0 && *steps > before_steps) Send(program, Cause::kNone, now);
}

std::span<const ledger::ProgramSignal> ProgramSignals::Take(const Snapshot& snapshot) {
  out_.clear();
  for (Source& source : sources_) source.seen = false;
  for (size_t i = 0; i < snapshot.frames.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    auto at = i < sources_.size() && sources_[i].name == entry.source
                  ? sources_.begin() + static_cast<std::ptrdiff_t>(i)
                  : std::ranges::find(sources_, entry.source, &Source::name);
    if (at == sources_.end())
      at = sources_.insert(at, Source{.name = std::string(entry.source), .programs = {}});
    if (std::exchange(at->seen, true)) continue;
    if (at->layout_id != entry.frame->layout->id()) Plan(*entry.frame, *at);
    if (std::exchange(at->run, entry.frame->run) == entry.frame->run) continue;
    for (Program& program : at->programs) Look(*entry.frame, program);
  }
  std::erase_if(sources_, [](const Source& source) { return !source.seen; });
  return out_;
}

}  // namespace gpulens::cost
