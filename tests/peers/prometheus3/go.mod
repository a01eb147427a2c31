module gpulens/tests/peers/prometheus3

go 1.26.0

require github.com/prometheus/prometheus v0.311.1
