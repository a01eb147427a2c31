module gpulens/tests/peers/vmalert

go 1.26.2

require github.com/VictoriaMetrics/VictoriaMetrics v1.140.0
