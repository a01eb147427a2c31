module gpulens/tests/peers/vmagent

go 1.26.2

require github.com/VictoriaMetrics/VictoriaMetrics v1.140.0
