#include "plugins/collectors/programs/program_socket.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/workers.h"
#include "net/blocking/listening_socket.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/packing.h"
#include "net/grpc/grpc_wire.h"

namespace gpulens {
namespace {

constexpr size_t kMostBytes = size_t{8} << 20;  // of a request, unpacked

HttpResponse Failure(int status, GrpcCode code, std::string_view why) {
  HttpResponse response;
  response.status = status;
  response.content_type = OtlpContentType(OtlpEncoding::kProtobuf);
  response.body = OtlpFailure(OtlpEncoding::kProtobuf, static_cast<uint32_t>(code), why);
  return response;
}

HttpResponse Answer(ProgramRegistry& table, const ProgramRegistry::Sender& sender, std::string_view body,
                    bool packed, Instant now) {
  std::string unpacked;
  if (packed) {
    if (Status status = Gunzip(body, kMostBytes, unpacked); !status)
      return Failure(status.code == Code::kExhausted ? 413 : 400, GrpcCode::kInvalidArgument, status.detail);
    body = unpacked;
  }
  OtlpPointsReport report;
  const Status taken = table.Take(sender, body, now, report);
  if (taken.code == Code::kExhausted) {
    HttpResponse busy = Failure(429, GrpcCode::kResourceExhausted, taken.detail);
    busy.AddHeader("Retry-After", "60");
    return busy;
  }
  if (!taken) return Failure(400, GrpcCode::kInvalidArgument, taken.detail);
  HttpResponse response;
  response.content_type = OtlpContentType(OtlpEncoding::kProtobuf);
  response.body = OtlpSuccess(OtlpSignal::kMetrics, OtlpEncoding::kProtobuf, report.rejected, report.why);
  return response;
}

}  // namespace

std::string DefaultProgramSocket() {
  if (::geteuid() == 0) return "/run/gpulens/otlp.sock";
  // A service has a folder of its own, under the name where programs look.
  const char* service = ::getenv("RUNTIME_DIRECTORY");
  if (service && *service == '/') return std::string(service) + "/otlp.sock";
  const char* folder = ::getenv("XDG_RUNTIME_DIR");
  return folder && *folder == '/' ? std::string(folder) + "/gpulens/otlp.sock" : std::string();
}

ProgramSocket::ProgramSocket(std::shared_ptr<ProgramRegistry> table, Env& env)
    : table_(std::move(table)), env_(env) {
  router_.Add("/v1/metrics", "POST", [this](const HttpRequest& request, HttpResponder responder) {
    Handle(request, std::move(responder));
  });
  HttpLimits limits;
  limits.connections = 256;
  limits.body_bytes = kMostBytes;
  limits.arriving_bytes = 4 * kMostBytes;
  server_ = std::make_unique<HttpServer>(*env_.io, router_, HttpServer::Options{.limits = limits});
}

Result<std::unique_ptr<ProgramSocket>> ProgramSocket::Open(const std::string& path,
                                                           std::shared_ptr<ProgramRegistry> table, Env& env) {
  if (path.empty() || path.front() != '/' || path.back() == '/')
    return Status{Code::kInvalidArgument, "collectors.programs.socket must be the full path of a file"};
  RETURN_IF_ERROR(MakeFoldersAbove(path));
  Endpoint at;
  at.family = Endpoint::Family::kUnix;
  at.path = path;
  ASSIGN_OR_RETURN(UniqueFd listening, OpenListeningSocket(at));
  if (::chmod(path.c_str(), 0666) != 0) return ErrnoStatus("chmod " + path, errno);
  std::unique_ptr<ProgramSocket> made(new ProgramSocket(std::move(table), env));
  ASSIGN_OR_RETURN(at, made->server_->Listen(std::move(listening)));
  return made;
}

void ProgramSocket::Handle(const HttpRequest& request, HttpResponder responder) {
  std::string_view type = request.Header("Content-Type");
  if (!EqualsIgnoringCase(Trim(TakeUntil(type, ';')), "application/x-protobuf"))
    return responder.Send(Failure(415, GrpcCode::kInvalidArgument, "Content-Type must be application/x-protobuf"));
  const std::string packing = request.JoinedHeader("Content-Encoding");
  const bool packed = EqualsIgnoringCase(packing, "gzip");
  if (!packed && !packing.empty() && !EqualsIgnoringCase(packing, "identity"))
    return responder.Send(Failure(415, GrpcCode::kInvalidArgument, "Content-Encoding must be gzip or identity"));
  const ProgramRegistry::Sender sender{request.peer_pid(), request.peer_uid()};
  const Instant now = env_.clock->Now();
  auto waiting = std::make_shared<HttpResponder>(std::move(responder));
  auto work = [table = table_, sender, now, packed, waiting, body = request.TakeBody()] {
    waiting->Send(Answer(*table, sender, body, packed, now));
  };
  if (!env_.workers) return work();
  if (!env_.workers->Post(std::move(work)))
    waiting->Send(Failure(503, GrpcCode::kResourceExhausted, "the work queue is full"));
}

}  // namespace gpulens
