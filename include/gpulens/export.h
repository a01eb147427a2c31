// How a program's instruments leave it: to the agent of this machine, to an OTLP receiver, or as a page to
// scrape.
//
//   int main() {
//     auto to_agent = gpulens::ExportToAgent();
//     …
//   }
//
// Values are cumulative: while the other side is away nothing is lost, since the next request that gets
// through tells all. It is tried again after 1 s, then after twice as long each time, at most a minute. Each
// exporter has one thread, and never holds up whoever records.
//
// Without a line of code, in a program that links gpulens::sdk: GPULENS_EXPORT=agent, otlp or expose does the
// same as the functions below, from the first instrument to the end of the process. OTEL_SDK_DISABLED=true
// switches everything off.
//
// After fork() the child has exporters of its own from its first use of an instrument, with a new
// service.instance.id; a page stays the parent's.
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

// Keep it as long as it shall work, in main() for instance. Its end sends once more, for at most a second; so
// does the normal end of the process when it still stands. It ends before its registry does. Thread-safe but
// for moving.
class [[nodiscard]] Exporter {
 public:
  explicit Exporter(std::unique_ptr<sdk::ExporterSeat> seat) noexcept;
  Exporter(Exporter&& other) noexcept;
  Exporter& operator=(Exporter&& other) noexcept;
  ~Exporter();

  // Ok when the last try went well, or none was due yet. An absent peer is kUnavailable: "no agent at
  // /run/gpulens/otlp.sock, 12 tries".
  Status status() const;
  // Sends now, whatever the back-off says, and waits for the answer. Of a page: nothing to do. kTimeout: it
  // goes on without being waited for.
  Status Flush(Duration timeout = std::chrono::seconds(5));
  // Where it is reached or sends to: "http://127.0.0.1:9464/metrics". Without passwords.
  std::string address() const;

 private:
  std::unique_ptr<sdk::ExporterSeat> seat_;
};

struct AgentOptions {
  // The agent's Unix socket for programs. Empty: $GPULENS_SOCKET, else the first that is there of
  // /run/gpulens/otlp.sock and $XDG_RUNTIME_DIR/gpulens/otlp.sock, looked for at each try.
  std::string socket = {};
  Duration interval{};  // 0: $OTEL_METRIC_EXPORT_INTERVAL, else 10 s
};

// To the agent of this machine, which adds pid, pod and job. Never fails: it keeps trying.
Exporter ExportToAgent(const AgentOptions& options = {}, Registry& registry = Registry::Process());

// What is empty is taken from the environment variables of OpenTelemetry (OTEL_EXPORTER_OTLP_…), those of
// metrics first, else it is the default of OpenTelemetry.
struct OtlpOptions {
  std::string endpoint = {};  // "http://127.0.0.1:4318"; the path /v1/metrics is added where it has none
  std::string protocol = {};  // "http/protobuf", "grpc"
  std::string ca_file = {};   // for https; empty: the CAs of the machine
  // What this program shows a server that asks who it is: PEM, the certificate with its chain. Both or none.
  std::string client_certificate_file = {}, client_key_file = {};
  std::string service_name = {};  // service.name; empty: as the environment says, else the program's name
  std::map<std::string, std::string> headers = {};
  Duration interval{};  // 0: $OTEL_METRIC_EXPORT_INTERVAL, else 30 s
  Duration timeout{};   // of one request; 0: $OTEL_EXPORTER_OTLP_TIMEOUT, else 10 s
};

// kInvalidArgument for a URL, protocol or header that is none, and for what stands in a file that is no
// certificate or key; the code of the system for a file that cannot be read. An absent server is no failure.
Result<Exporter> ExportOtlp(const OtlpOptions& options = {}, Registry& registry = Registry::Process());

struct ExposeOptions {
  std::string listen = "127.0.0.1:9464";  // HOST:PORT; port 0 takes a free one
  // Serve other machines, too. The page has neither TLS nor passwords: for closed networks. The agent's page
  // has both, and shows what is exported to it.
  bool insecure = false;
};

// A page to scrape at /metrics, in Prometheus's text or OpenMetrics as the scraper asks. kInvalidArgument for
// an address of other machines without `insecure`; a code of the system when the port is taken.
Result<Exporter> Expose(const ExposeOptions& options = {}, Registry& registry = Registry::Process());

// The same page, as Prometheus's text 0.0.4.
std::string ToPrometheus(const Registry& registry = Registry::Process());

// What GPULENS_EXPORT asks for, from now on to the end of the process; nothing when it asks for nothing or
// has been heeded before. For programs whose linker leaves out what nobody names; others need not call it.
// What is wrong with the environment is told, once, on standard error.
void ExportAsEnvironmentSays() noexcept;

}  // namespace gpulens
