// Names what needs TLS and gRPC: these are linked then.
#include <gpulens/gpulens.h>

#include <cstdio>

int main() {
  const gpulens::Counter jobs("jobs");
  jobs.Add(1);
  for (const char* endpoint : {"https://127.0.0.1:1", "http://127.0.0.1:1"}) {
    for (const char* protocol : {"http/protobuf", "grpc"}) {
      auto exporter = gpulens::ExportOtlp({.endpoint = endpoint, .protocol = protocol});
      if (!exporter) return std::fprintf(stderr, "%s\n", exporter.status().detail.c_str()), 1;
      if (exporter->Flush().code != gpulens::Code::kUnavailable) return 2;
    }
  }
  return 0;
}
