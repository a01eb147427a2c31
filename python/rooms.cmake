# The folders of src/ that the Python package is made of. The repository's own build compiles the archive of the SDK with the
# same flags, source by source, so that ccache has them when the package is built: docs/adr/0034-python-package.md.
set(GPULENS_PYTHON_ROOMS
  base
  core
  energy
  instruments
  net/blocking net/message
  reader reader/process
  sdk/energy sdk/energy/feed sdk/energy/processes sdk/energy/sources
  sdk/experiment sdk/inference
  sdk/ring/record
  sdk/training
  sdk/vllm
  sources/amdsmi sources/amdsmi/reader
  sources/host sources/host/parse
  sources/nvml sources/nvml/reader
  store/clickhouse store/experiments store/postgres store/sketch store/sqlite
  store/telemetry store/telemetry/clickhouse store/telemetry/postgres store/telemetry/servers store/telemetry/summary
  wire/exposition
)
# TLS and gRPC, in a shared object of their own; only where OpenSSL, nghttp2 and libdeflate are found.
set(GPULENS_PYTHON_SECURE_FILES
  net/client/http_channel.cc net/client/http_client.cc
  net/grpc/grpc_call_state.cc net/grpc/grpc_calls.cc net/grpc/grpc_client.cc net/grpc/grpc_connection.cc
  net/grpc/grpc_connector.cc net/grpc/grpc_message.cc net/grpc/grpc_status.cc
  net/http2/http2_session.cc net/http2/http2_transport.cc
  net/io_loop.cc net/stream.cc net/tls.cc net/tls_session.cc
  sdk/export/secure_transport.cc
)
# Single files of folders that hold more than is wanted here.
set(GPULENS_PYTHON_FILES
  catalog/prometheus_name.cc
  sdk/export/environment.cc sdk/export/export_agent.cc sdk/export/exporter_seat.cc sdk/export/expose.cc
  sdk/export/export_otlp.cc sdk/export/key_values.cc sdk/export/metrics_page.cc sdk/export/resource.cc
  sdk/export/otlp_plan.cc sdk/export/plain_transport.cc sdk/export/push_job.cc
  wire/json/json_text.cc
  wire/number_text.cc
  wire/otlp/exponential_bounds.cc wire/otlp/otlp_answer.cc wire/otlp/otlp_fields.cc wire/otlp/otlp_samples.cc
)
