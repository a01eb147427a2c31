module gpulens/bench/collector

go 1.26.2

require (
	github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver v0.152.0
	go.opentelemetry.io/collector/component v1.58.0
	go.opentelemetry.io/collector/confmap v1.58.0
	go.opentelemetry.io/collector/confmap/provider/fileprovider v1.58.0
	go.opentelemetry.io/collector/exporter/nopexporter v0.152.0
	go.opentelemetry.io/collector/otelcol v0.152.0
)
