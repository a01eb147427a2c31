// otlp RUNS: how long the OpenTelemetry Collector's pdata takes to write the points of src/wire/otlp's
// benchmark: 50 gauges of 100 points with five attributes each.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"gpulens/bench/measure"
)

const (
	families = 50
	each     = 100
	span     = 200 * time.Millisecond
)

func build() pmetric.Metrics {
	metrics := pmetric.NewMetrics()
	scope := metrics.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty()
	scope.Scope().SetName("gpulens.nvidia")
	scope.Scope().SetVersion("1")
	for family := range families {
		metric := scope.Metrics().AppendEmpty()
		metric.SetName(fmt.Sprintf("bench.family_%d", family))
		metric.SetDescription("A number that changes.")
		points := metric.SetEmptyGauge().DataPoints()
		points.EnsureCapacity(each)
		for i := range each {
			point := points.AppendEmpty()
			attributes := point.Attributes()
			attributes.EnsureCapacity(5)
			attributes.PutInt("gpu.index", int64(i))
			attributes.PutStr("gpu.uuid", "GPU-3d8f1f1e-aaaa-bbbb-cccc-0123456789ab")
			attributes.PutStr("gpu.model", "NVIDIA H100 80GB HBM3")
			attributes.PutStr("gpu.vendor", "nvidia")
			attributes.PutStr("host.name", "node-17")
		}
	}
	return metrics
}

// fill gives every point another number and time.
func fill(metrics pmetric.Metrics, tick int) {
	at := pcommon.Timestamp(1_700_000_000_000_000_000 + tick*1_000_000_000)
	list := metrics.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
	for family := range list.Len() {
		points := list.At(family).Gauge().DataPoints()
		for i := range points.Len() {
			points.At(i).SetTimestamp(at)
			points.At(i).SetDoubleValue(float64(tick + i))
		}
	}
}

func encode(metrics pmetric.Metrics) (int, int) {
	bytes, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	if err != nil {
		measure.Fail(err)
	}
	return len(bytes), families * each
}

func main() {
	if len(os.Args) != 2 {
		measure.Fail(fmt.Errorf("usage: otlp RUNS"))
	}
	runs, err := strconv.Atoi(os.Args[1])
	if err != nil {
		measure.Fail(err)
	}
	version := measure.VersionOf("go.opentelemetry.io/collector/pdata")
	kept, tick := build(), 0
	measure.Run("pdata", version, runs, span, func() (int, int) {
		tick++
		fill(kept, tick)
		return encode(kept)
	})
	measure.Run("pdata_built", version, runs, span, func() (int, int) {
		tick++
		built := build()
		fill(built, tick)
		return encode(built)
	})
}
