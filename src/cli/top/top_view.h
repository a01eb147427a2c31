// What `gpulens top` shows of a node, as plain data. A number that is not known is kNotMeasured.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

struct TopValue {
  double value = kNotMeasured;
  int64_t stale_ms = 0;  // its age, when a newer one was expected by now; 0: it is new

  bool known() const noexcept { return !std::isnan(value); }
};

enum class TopLevel : uint8_t { kGood, kLook, kAct, kUnknown };

struct TopProcess {
  std::string pid, name, user, where;
  TopValue memory, busy;
};

struct TopGpu {
  std::string index, uuid, model, pci, numa;
  std::string driver_state, health_state;  // "ok", "lost", …; "ok", "degraded", …
  TopLevel level = TopLevel::kGood;
  std::string trouble;  // why the level is not good
  std::string runs;     // who holds it
  TopValue busy, sm, tensor, dram, memory_used, memory_total, power, power_limit, energy, core, hbm, clock,
      clock_max, links, pcie_gen, pcie_gen_max, pcie_width, pcie_width_max, throttled, health, fan,
      joules_per_token, ecc_corrected, ecc_uncorrected, rows_remapped;
  std::string throttle_cause;
  std::vector<double> busy_trend, power_trend, memory_trend;  // one value a tick, the newest last; NaN: a gap
  std::vector<TopProcess> processes;                          // by memory
};

struct TopEngine {
  std::string name, engine, layer, model, state;
  TopLevel level = TopLevel::kGood;
  TopValue running, waiting, kv, prefix_hits, tokens, ttft, itl, latency, joules_per_token;
  TopValue
      throughput;  // tokens per second as the engine or an analyzer reports it, where they cannot be counted
  std::vector<double> tokens_trend;
};

struct TopJob {
  std::string who, kind;  // kind: pod, job
  std::vector<std::string> gpus;
  TopLevel level = TopLevel::kGood;
  TopValue busy, memory, power, energy, cost;
};

struct TopEvent {
  int64_t at_ms = 0;
  TopLevel level = TopLevel::kGood;
  std::string gpu, name, text, who;
};

struct TopHost {
  std::string name, cpu_model, kernel;
  TopValue cpu, memory_used, memory_total, swap, net_in, net_out, disk_read, disk_write, rdma_in, rdma_out,
      pressure_cpu, pressure_memory, pressure_io, uptime;
  std::vector<double> cpu_trend;
};

struct TopSelf {
  TopValue memory, cpu, series, series_limit, refused, rejected, tick_duration, tick_late;
  struct Part {
    std::string name;
    bool up = false;
  };
  std::vector<Part> collectors, sinks;
};

// A chart of the detail of a GPU: equal steps up to now.
struct TopChart {
  std::string title, unit;
  double scale = 1;  // of the values for the unit
  double top = 0;    // of the axis, in the unit; 0: the greatest value, rounded up
  std::vector<double> values;
};

struct TopNode {
  std::string name;     // of the host; its address while that is not known
  std::string address;  // "the agent at …", a URL, "this process"
  bool direct = false;  // read by this process
  std::string why_direct;
  bool simulated = false;
  std::string version, driver;
  int64_t at_ms = 0;  // of the last tick; 0: none yet
  double interval_s = 1;
  // While the node is away: since when, and why.
  int64_t away_since_ms = 0;
  std::string away_why;
  bool events_known = false;
  double history_s = 0;  // how far back the history goes

  TopHost host;
  std::vector<TopGpu> gpus;
  std::vector<TopEngine> engines;
  std::vector<TopJob> jobs;
  std::vector<TopEvent> events;  // newest first
  TopSelf self;
  std::vector<TopChart> charts;  // of the GPU in detail
};

}  // namespace gpulens
