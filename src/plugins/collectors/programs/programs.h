// Metrics of the programs of this machine that export to the agent: their latest series, and the Unix sockets
// for OTLP over HTTP and for the energy of GPUs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "base/process.h"
#include "core/frame_writer.h"
#include "net/http/http_server.h"
#include "plugins/plugin.h"
#include "wire/otlp/otlp_points.h"

namespace gpulens {

// The latest series of the programs. Take may be called by any thread, Write and counts inside the instance's
// run. Write does not allocate when nothing new came.
class ProgramRegistry {
 public:
  struct Limits {
    size_t programs = 256;
    size_t programs_of_user = 128;
    size_t instances = 16;                          // service.instance.id of a process
    size_t series = 20'000;                         // of a program
    size_t series_of_user = 20'000;                 // of all programs of a user
    size_t all_series = 100'000;                    // of all
    Duration max_age = std::chrono::seconds(150);   // of an exported value
    Duration drop_after = std::chrono::minutes(5);  // of series and programs without newer data
  };
  explicit ProgramRegistry(const Limits& limits) : limits_(limits) {}

  // The sending process by the kernel; 0 and -1: unknown.
  struct Sender {
    int32_t pid = 0;
    int64_t uid = -1;
    auto operator<=>(const Sender&) const = default;
  };
  // Limits hold for each user, so that one cannot use up the space of others. kDataLoss: not valid OTLP;
  // kExhausted: too many programs.
  Status Take(const Sender& sender, std::string_view request, Instant now, OtlpPointsReport& report);
  void Write(FrameWriter& out);

  struct Counts {
    size_t programs = 0;
    uint64_t accepted = 0, rejected = 0;
  };
  Counts counts() const;

 private:
  class PointReader;
  // One series.
  struct Row {
    std::string name, unit, description;
    AttributeSet attributes;
    Kind kind = Kind::kGauge;
    bool integer = false, has_sum = false;
    int64_t start_unix_ns = 0;
    Instant received;
    double value = 0;
    int64_t whole = 0;
    std::vector<double> bounds, counts;  // cumulative; the last bound is +Inf
    double sum = 0;
    // Used in the run only.
    Series series;
    int64_t declared_start_ns = 0;
    bool reshaped = false;  // its bounds differ from the declared ones
    bool refused = false;
  };
  struct Program {
    EntityRef entity;
    Instant received;
    std::unordered_map<std::string, Row> rows;
  };
  using Key = std::pair<Sender, std::string>;  // with service.instance.id
  struct User {
    size_t programs = 0, series = 0;
  };

  Program* ProgramOf(const Sender& sender, std::span<const AttributeSet::Attribute> resource);
  static void Declare(Row& row, const EntityRef& entity, SeriesTable& table);
  static void WriteRow(Row& row, FrameWriter& out);

  const Limits limits_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<Key, Program> programs_;
  std::map<int64_t, User> users_;  // by uid; only with programs
  size_t series_ = 0;
  uint64_t accepted_ = 0, rejected_ = 0;
};

// Accepts metrics of programs during its lifetime. Created and destroyed on any thread but the loop's.
class ProgramSocket {
 public:
  // Creates the folder if missing and the socket, which every user may connect to; the kernel identifies the
  // sender. `env` outlives it.
  static Result<std::unique_ptr<ProgramSocket>> Open(const std::string& path,
                                                     std::shared_ptr<ProgramRegistry> registry, Env& env);

 private:
  ProgramSocket(std::shared_ptr<ProgramRegistry> registry, Env& env);
  void Handle(const HttpRequest& request, HttpResponder responder);

  const std::shared_ptr<ProgramRegistry> registry_;
  Env& env_;
  HttpRouter router_;
  std::unique_ptr<HttpServer> server_;
};

// Returns the path of energy.sock in the folder of the socket of programs.
std::string EnergySocketNextTo(const std::string& program_socket);

// The socket at which programs query the energy of GPUs, and the reader process that opens the vendors'
// libraries and answers (src/sdk/energy/feed). The first query starts the process, and it ends after a while
// without any. Waits in a thread of its own. Created and destroyed by any thread.
class EnergySocket {
 public:
  struct Options {
    std::string path;
    std::string program = "/proc/self/exe";  // started as `driver energy --listen-fd=N`
    bool simulated = false;                  // GPUs
    ReaderControl* control = nullptr;        // no process while devices are released
  };
  // Creates the folder if missing and the socket, which every user may connect to: the device files show the
  // same.
  static Result<std::unique_ptr<EnergySocket>> Open(Options options);
  ~EnergySocket();

 private:
  EnergySocket(Options options, UniqueFd listening, UniqueFd stop);
  void Watch();
  bool Released() const;
  void Start();

  const Options options_;
  const UniqueFd listening_, stop_;
  ChildProcess reader_;  // the thread's
  std::thread thread_;
};

}  // namespace gpulens
