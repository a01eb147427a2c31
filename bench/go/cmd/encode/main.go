// encode FILE RUNS: how long client_golang and VictoriaMetrics/metrics take to write the series of a
// page. Both are filled from the page itself, so that everybody writes the same series.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	vmmetrics "github.com/VictoriaMetrics/metrics"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"gpulens/bench/measure"
)

const span = 200 * time.Millisecond

// finiteBounds are the bounds of a histogram without +Inf, which both libraries add.
func finiteBounds(histogram *dto.Histogram) []float64 {
	var bounds []float64
	for _, bucket := range histogram.Bucket {
		if !math.IsInf(bucket.GetUpperBound(), 1) {
			bounds = append(bounds, bucket.GetUpperBound())
		}
	}
	return bounds
}

// observe repeats each bucket's number of observations at its bound, so that the buckets are those of
// the page.
func observe(histogram *dto.Histogram, add func(float64)) {
	var before uint64
	for _, bucket := range histogram.Bucket {
		value := bucket.GetUpperBound()
		if math.IsInf(value, 1) {
			value = 1e9
		}
		for ; before < bucket.GetCumulativeCount(); before++ {
			add(value)
		}
	}
}

func labelsOf(metric *dto.Metric) (names []string, values prometheus.Labels) {
	values = prometheus.Labels{}
	for _, pair := range metric.Label {
		names = append(names, pair.GetName())
		values[pair.GetName()] = pair.GetValue()
	}
	return names, values
}

func clientGolang(families map[string]*dto.MetricFamily) func() (int, int) {
	registry := prometheus.NewRegistry()
	for name, family := range families {
		names, _ := labelsOf(family.Metric[0])
		switch family.GetType() {
		case dto.MetricType_COUNTER:
			vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: family.GetHelp()}, names)
			registry.MustRegister(vec)
			for _, metric := range family.Metric {
				_, values := labelsOf(metric)
				vec.With(values).Add(metric.Counter.GetValue())
			}
		case dto.MetricType_HISTOGRAM:
			bounds := finiteBounds(family.Metric[0].Histogram)
			vec := prometheus.NewHistogramVec(
				prometheus.HistogramOpts{Name: name, Help: family.GetHelp(), Buckets: bounds}, names)
			registry.MustRegister(vec)
			for _, metric := range family.Metric {
				_, values := labelsOf(metric)
				observe(metric.Histogram, vec.With(values).Observe)
			}
		default:
			vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: family.GetHelp()}, names)
			registry.MustRegister(vec)
			for _, metric := range family.Metric {
				_, values := labelsOf(metric)
				vec.With(values).Set(metric.Gauge.GetValue())
			}
		}
	}
	var page bytes.Buffer
	return func() (int, int) {
		page.Reset()
		gathered, err := registry.Gather()
		if err != nil {
			measure.Fail(err)
		}
		encoder := expfmt.NewEncoder(&page, expfmt.NewFormat(expfmt.TypeTextPlain))
		for _, family := range gathered {
			if err := encoder.Encode(family); err != nil {
				measure.Fail(err)
			}
		}
		return page.Len(), samplesOf(page.Bytes())
	}
}

func victoriaMetrics(families map[string]*dto.MetricFamily) func() (int, int) {
	set := vmmetrics.NewSet()
	vmmetrics.ExposeMetadata(true)
	for name, family := range families {
		for _, metric := range family.Metric {
			var pairs []string
			for _, pair := range metric.Label {
				pairs = append(pairs, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}
			full := name + "{" + strings.Join(pairs, ",") + "}"
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				set.NewFloatCounter(full).Set(metric.Counter.GetValue())
			case dto.MetricType_HISTOGRAM:
				observe(metric.Histogram,
					set.NewPrometheusHistogramExt(full, finiteBounds(metric.Histogram)).Update)
			default:
				set.NewGauge(full, nil).Set(metric.Gauge.GetValue())
			}
		}
	}
	var page bytes.Buffer
	return func() (int, int) {
		page.Reset()
		set.WritePrometheus(&page)
		return page.Len(), samplesOf(page.Bytes())
	}
}

var counted int

// samplesOf counts once: it would be part of every timed call.
func samplesOf(page []byte) int {
	if counted == 0 {
		counted = bytes.Count(page, []byte("\n")) - bytes.Count(page, []byte("\n#")) - 1
	}
	return counted
}

func main() {
	if len(os.Args) != 3 {
		measure.Fail(errors.New("usage: encode FILE RUNS"))
	}
	file, err := os.Open(os.Args[1])
	if err != nil {
		measure.Fail(err)
	}
	runs, err := strconv.Atoi(os.Args[2])
	if err != nil {
		measure.Fail(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(file)
	if err != nil {
		measure.Fail(err)
	}
	measure.Run("client_golang", measure.VersionOf("github.com/prometheus/client_golang"), runs, span,
		clientGolang(families))
	counted = 0
	measure.Run("victoriametrics_metrics", measure.VersionOf("github.com/VictoriaMetrics/metrics"), runs, span,
		victoriaMetrics(families))
}
