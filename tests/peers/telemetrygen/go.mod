module gpulens/tests/peers/telemetrygen

go 1.26.0

require github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen v0.149.0
