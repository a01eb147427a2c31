// Native part of gpulens.export. TLS and gRPC are in a library of their own, next to gpulens._core.
#include <gpulens/export.h>

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>

#include "instruments/workers.h"
#include "net/blocking/blocking_post.h"
#include "sdk/export/otlp_plan.h"
#include "src/values.h"

namespace gpulens::python {
namespace {

std::chrono::nanoseconds OptionalSpan(const std::optional<double>& seconds, const char* name) {
  return seconds ? Span(*seconds, name) : std::chrono::nanoseconds();
}

// An exporter with its registry, which must outlive it. Thread-safe: a call may use the exporter while
// another closes it.
class ExporterBlock {
 public:
  ExporterBlock(Exporter exporter, nb::object registry)
      : registry_(std::move(registry)), exporter_(std::make_shared<Exporter>(std::move(exporter))) {}
  ExporterBlock(ExporterBlock&&) = delete;
  ~ExporterBlock() { Close(); }

  void Close() {
    std::shared_ptr<Exporter> closed;
    {
      const std::lock_guard lock(mutex_);
      closed = std::move(exporter_);
    }
    const nb::gil_scoped_release released;  // exports once more, for at most a second
    closed.reset();
  }
  void Flush(double timeout_seconds) {
    const auto timeout = Span(timeout_seconds, "timeout_seconds");
    const std::shared_ptr<Exporter> exporter = Used();
    Check(WithoutGil([&] { return exporter ? exporter->Flush(timeout) : Closed(); }));
  }
  Status status() const {
    const std::shared_ptr<Exporter> exporter = Used();
    return exporter ? exporter->status() : Closed();
  }
  std::string address() const {
    const std::shared_ptr<Exporter> exporter = Used();
    return exporter ? exporter->address() : std::string();
  }

 private:
  static Status Closed() { return {Code::kUnavailable, "the exporter is closed"}; }
  std::shared_ptr<Exporter> Used() const {
    const std::lock_guard lock(mutex_);
    return exporter_;
  }

  nb::object registry_;
  mutable std::mutex mutex_;
  std::shared_ptr<Exporter> exporter_;
};

Registry& Of(const nb::object& registry) {
  return registry.is_none() ? Registry::Process() : nb::cast<Registry&>(registry);
}

void Close(nb::object self) {
  nb::module_::import_("gpulens._core").attr("_running").attr("discard")(self);
  nb::cast<ExporterBlock&>(self).Close();
}

ExporterBlock* ToAgent(std::string socket, std::optional<double> interval_seconds, nb::object registry) {
  const AgentOptions options{.socket = std::move(socket),
                             .interval = OptionalSpan(interval_seconds, "interval_seconds")};
  Exporter exporter = ExportToAgent(options, Of(registry));
  return new ExporterBlock(std::move(exporter), std::move(registry));
}

ExporterBlock* ToOtlp(OtlpOptions options, nb::object registry) {
  Exporter exporter = Take(sdk::StartOtlp(options, Of(registry)));
  return new ExporterBlock(std::move(exporter), std::move(registry));
}

ExporterBlock* AsPage(std::string listen, bool insecure, nb::object registry, bool workers) {
  const ExposeOptions options{.listen = std::move(listen), .insecure = insecure, .workers = workers};
  Exporter exporter = Take(Expose(options, Of(registry)));
  return new ExporterBlock(std::move(exporter), std::move(registry));
}

using sdk::SecureMaker;

constexpr const char* kNotBuilt =
    "this package was built without TLS and gRPC because their headers were missing (Debian: libssl-dev "
    "libnghttp2-dev libdeflate-dev): install them and rebuild the package, or export to the agent, which "
    "forwards the data";

// Path of the library: in a subfolder, so that it is not taken for a Python module.
std::string LibraryPath() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&BindExport), &here) == 0 || !here.dli_fname) return {};
  const std::string core = here.dli_fname;
  return core.substr(0, core.rfind('/') + 1) + "lib/libgpulens_secure.so";
}

Status LoadFailed() {
  const char* why = ::dlerror();
  return {Code::kUnavailable, std::string("cannot load TLS and gRPC: ") + (why ? why : "")};
}

Result<void*> Load() {
  const std::string path = LibraryPath();
  if (::access(path.c_str(), F_OK) != 0) return Status{Code::kUnavailable, kNotBuilt};
  // Never closed: transports made by it live as long as the process does.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return LoadFailed();
  return library;
}

// Calls the library's function of this name.
template <class Given>
Result<Given> Find(const char* name) {
  static const Result<void*> library = Load();
  if (!library) return library.status();
  const auto give = reinterpret_cast<Given (*)()>(::dlsym(*library, name));
  if (!give) return LoadFailed();
  return give();
}

Result<std::unique_ptr<sdk::OtlpTransport>> Make(const sdk::OtlpPlan& plan) {
  static const Result<SecureMaker> maker = Find<SecureMaker>("gpulens_secure_maker");
  if (!maker) return maker.status();
  return (*maker)(plan);
}

Result<BlockingReply> Post(const BlockingPost::Request& request, Duration timeout) {
  static const Result<SecurePost> post = Find<SecurePost>("gpulens_secure_post");
  if (!post) return post.status();
  return (*post)(request, timeout);
}

// Registers the library for exporters and stores, which open it at first use. kUnavailable: the package was
// built without it, or a system library is missing.
void UseSecureLibrary() noexcept {
  sdk::SetSecureTransport(&Make);
  SetSecurePost(&Post);
}

}  // namespace

void BindExport(nb::module_& m) {
  nb::class_<ExporterBlock> exporter(
      m, "Exporter",
      "Exports the instruments of a registry. Runs until close() or the end of the program, both of which "
      "export once more, for at most a second, even if the program keeps no reference to it. Thread-safe.");
  RefusesPickle(exporter, "start one in the other process");
  exporter
      .def("flush", &ExporterBlock::Flush, "timeout_seconds"_a = 5.0,
           "Exports now and waits for the answer. Does nothing for a page. Raises the error of the export: "
           "TimeoutError, UnavailableError for an unreachable receiver, …")
      .def(
          "status",
          [](const ExporterBlock& self) {
            const Status status = self.status();
            return status.ok() ? std::string("ok") : status.detail;
          },
          "Returns \"ok\", else why the last export failed, such as \"no agent at /run/gpulens/otlp.sock, 12 "
          "tries\".")
      .def_prop_ro(
          "ok", [](const ExporterBlock& self) { return self.status().ok(); },
          "Whether the last export succeeded, or none was due yet.")
      .def_prop_ro(
          "reason", [](const ExporterBlock& self) { return self.status().detail; },
          "Why the last export failed; empty where it succeeded.")
      .def("__repr__",
           [](const ExporterBlock& self) {
             const Status status = self.status();
             return "<Exporter " + self.address() + (status.ok() ? ">" : ": " + status.detail + ">");
           })
      .def_prop_ro("address", &ExporterBlock::address,
                   "Address that receives the exports, or at which the page is served, without passwords.")
      .def("close", &Close, "Exports once more, for at most a second, and stops. May be called twice.")
      .def("__enter__", &EnterSelf, nb::sig("def __enter__(self) -> Exporter"))
      .def("__exit__", [](nb::object self, nb::args) { Close(std::move(self)); });
  m.attr("_running") = nb::set();  // keeps exporters without a reference running
  UseSecureLibrary();
  nb::class_<OtlpOptions> otlp_options(m, "OtlpOptions",
                                       "Options of gpulens.export_otlp(); empty: from the environment.");
  RefusesPickle(otlp_options, "call gpulens.export_otlp() in the other process");
  otlp_options.def(nb::init<>())
      .def_rw("endpoint", &OtlpOptions::endpoint)
      .def_rw("protocol", &OtlpOptions::protocol)
      .def_rw("ca_file", &OtlpOptions::ca_file)
      .def_rw("client_certificate_file", &OtlpOptions::client_certificate_file)
      .def_rw("client_key_file", &OtlpOptions::client_key_file)
      .def_rw("service_name", &OtlpOptions::service_name)
      .def_rw("headers", &OtlpOptions::headers);
  const auto otlp = [](OtlpOptions options, std::optional<double> interval_seconds,
                       std::optional<double> timeout_seconds, nb::object registry) {
    options.interval = OptionalSpan(interval_seconds, "interval_seconds");
    options.timeout = OptionalSpan(timeout_seconds, "timeout_seconds");
    return ToOtlp(std::move(options), std::move(registry));
  };
  m.def("export_to_agent", &ToAgent, "socket"_a, "interval_seconds"_a.none(), "registry"_a.none(),
        nb::rv_policy::take_ownership);
  m.def("export_otlp", otlp, "options"_a, "interval_seconds"_a.none(), "timeout_seconds"_a.none(),
        "registry"_a.none(), nb::rv_policy::take_ownership);
  m.def("expose", &AsPage, "listen"_a, "insecure"_a, "registry"_a.none(), "workers"_a = false,
        nb::rv_policy::take_ownership);
  m.def(
      "to_prometheus",
      [](const nb::object& registry) {
        return WithoutGil([&, at = &Of(registry)] { return ToPrometheus(*at); });
      },
      "registry"_a.none() = nb::none(),
      "Returns all series as a page in Prometheus' text format 0.0.4; after share_with_workers(), those of "
      "all "
      "workers.");
  m.def(
      "page_for",
      [](std::string_view accept) {
        const MetricsPage page = WithoutGil([&] { return PageFor(accept); });
        return nb::make_tuple(page.content_type, nb::bytes(page.body.data(), page.body.size()));
      },
      "accept"_a);
  m.def("share_with_workers", [](std::string folder, std::string family) {
    Check(WithoutGil([&] { return ShareWithWorkers({std::move(folder), std::move(family)}); }));
  });
  m.def("family_of_forks", &instruments::WorkersFolder::FamilyOfForks);
  // Links the file that applies GPULENS_EXPORT at the first instrument.
  m.def("export_as_environment_says", &ExportAsEnvironmentSays);
}

}  // namespace gpulens::python
