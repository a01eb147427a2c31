// Exporters of a program's instruments: to the agent of this machine, to an OTLP receiver, or as a page to
// scrape.
//
//   int main() {
//     auto to_agent = gpulens::ExportToAgent();
//     …
//   }
//
// Values are cumulative: nothing is lost while the other side is unavailable, since the next successful
// request contains all counts. A failed export is retried after 1 s, then after twice as long each time, at
// most a minute. Each exporter has one thread and never delays threads that record.
//
// In a program that links gpulens::sdk, GPULENS_EXPORT=agent, otlp or expose does the same as the functions
// below without a line of code, from the first instrument to the end of the process. OTEL_SDK_DISABLED=true
// disables all exporters.
//
// After fork() the child gets exporters of its own at its first use of an instrument, with a new
// service.instance.id; pages remain the parent's. ShareWithWorkers adds up what all of them count.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/registry.h>
#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

namespace sdk {
class ExporterSeat;
}

// Owns a running exporter; keep it in main() for instance. Its destructor exports once more, for at most a
// second, as does the normal end of the process when the exporter still exists. Its registry must outlive it.
// Thread-safe, except for moves.
class [[nodiscard]] Exporter {
 public:
  explicit Exporter(std::unique_ptr<sdk::ExporterSeat> seat) noexcept;
  Exporter(Exporter&& other) noexcept;
  Exporter& operator=(Exporter&& other) noexcept;
  ~Exporter();

  // Result of the last export; ok before the first. An absent peer is kUnavailable: "no agent at
  // /run/gpulens/otlp.sock, 12 tries".
  Status status() const;
  // Exports now, regardless of the back-off, and waits for the response. Does nothing for a page. kTimeout:
  // the export continues in the background.
  Status Flush(Duration timeout = std::chrono::seconds(5));
  // URL of the page or receiver: "http://127.0.0.1:9464/metrics". Without passwords.
  std::string address() const;

 private:
  std::unique_ptr<sdk::ExporterSeat> seat_;
};

struct AgentOptions {
  // The agent's Unix socket for programs. Empty: $GPULENS_SOCKET, otherwise the first that exists of
  // /run/gpulens/otlp.sock and $XDG_RUNTIME_DIR/gpulens/otlp.sock, resolved at each attempt.
  std::string socket = {};
  Duration interval{};  // 0: $OTEL_METRIC_EXPORT_INTERVAL, else 10 s
};

// Exports to the agent of this machine, which adds pid, pod and job. Never fails: it retries.
Exporter ExportToAgent(const AgentOptions& options = {}, Registry& registry = Registry::Process());

// Empty options are taken from the environment variables of OpenTelemetry (OTEL_EXPORTER_OTLP_…), those for
// metrics first; otherwise they have OpenTelemetry's defaults.
struct OtlpOptions {
  std::string endpoint = {};  // "http://127.0.0.1:4318"; the path /v1/metrics is added where it has none
  std::string protocol = {};  // "http/protobuf", "grpc"
  std::string ca_file = {};   // for https; empty: the CAs of the machine
  // Client certificate with its chain, and its key, in PEM, for mutual TLS. Both or neither.
  std::string client_certificate_file = {}, client_key_file = {};
  std::string service_name = {};  // service.name; empty: from the environment, else the program's name
  std::map<std::string, std::string> headers = {};
  Duration interval{};  // 0: $OTEL_METRIC_EXPORT_INTERVAL, else 30 s
  Duration timeout{};   // of one request; 0: $OTEL_EXPORTER_OTLP_TIMEOUT, else 10 s
};

// Exports to an OTLP receiver. kInvalidArgument: an invalid URL, protocol or header, or a file that contains
// no certificate or key; a file that cannot be read gives the system's code. An absent server is not an
// error.
Result<Exporter> ExportOtlp(const OtlpOptions& options = {}, Registry& registry = Registry::Process());

struct ExposeOptions {
  std::string listen = "127.0.0.1:9464";  // HOST:PORT; port 0 takes a free one
  // Allow addresses that other machines reach. The page has neither TLS nor passwords, so use it in closed
  // networks only. The agent's page has both, and contains the series exported to the agent.
  bool insecure = false;
  // Serve the counts of all worker processes of the server: see ShareWithWorkers, which is called. The first
  // process serves, and another one in its place when it ends. For Registry::Process() only.
  bool workers = false;
};

struct WorkersOptions {
  // Folder in which the processes of one server share their counts, made if it is missing. Counts continue
  // while it exists. Empty: $GPULENS_WORKERS_DIR, else a folder in memory of the processes that were forked,
  // without exec, from the same program, or that have the same `family`.
  std::string folder = {};
  std::string family = {};
};

// Adds up what the processes of a server count in Registry::Process(), for servers with several workers
// (gunicorn, uvicorn, any that forks). Call it in each worker, or before they are forked. Afterwards
// ToPrometheus and pages of that registry have the counts of all processes, those of ended ones once, the
// same in each. Gauges are of running workers, as InstrumentOptions::workers merges them. Exporters to the
// agent and OTLP send each process for itself, as before.
//
// Recording costs what it did: counts are in mapped files, which kill -9 leaves behind. The second call does
// nothing. kPermissionDenied: the folder is another user's or others may write there; kExhausted: its file
// system is full.
Status ShareWithWorkers(const WorkersOptions& options = {});

// Serves a page to scrape at /metrics, in Prometheus's text format or OpenMetrics as the scraper requests.
// kInvalidArgument: an address that other machines reach, without `insecure`. A port in use gives the
// system's code.
Result<Exporter> Expose(const ExposeOptions& options = {}, Registry& registry = Registry::Process());

// Returns the same page in Prometheus's text format 0.0.4.
std::string ToPrometheus(const Registry& registry = Registry::Process());

// The same page as a scraper requests it, for a server that has a route for it. A plain value.
struct MetricsPage {
  std::string content_type, body;
};
// `accept`: the request's header of that name, or empty.
MetricsPage PageFor(std::string_view accept, const Registry& registry = Registry::Process());

// Starts the exporter that GPULENS_EXPORT names, until the end of the process; later calls have no effect.
// Only needed by programs whose linker discards unreferenced objects. Errors in the environment are written
// once to standard error.
void ExportAsEnvironmentSays() noexcept;

}  // namespace gpulens
