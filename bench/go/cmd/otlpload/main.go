// otlpload http|grpc ADDRESS POINTS CONNECTIONS SECONDS: sends one OTLP metrics request, encoded once, over so many
// connections with one call in flight on each, and prints one line of JSON about it. Its points are gauges with six
// attributes of the kind that agents of GPUs send. The same client for every receiver.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"gpulens/bench/measure"
)

const (
	ofOneMetric = 100
	method      = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
)

func request(points int) []byte {
	metrics := pmetric.NewMetrics()
	of := metrics.ResourceMetrics().AppendEmpty()
	of.Resource().Attributes().PutStr("service.name", "otlpload")
	scope := of.ScopeMetrics().AppendEmpty()
	scope.Scope().SetName("gpulens.bench")
	var list pmetric.NumberDataPointSlice
	for i := range points {
		if i%ofOneMetric == 0 {
			metric := scope.Metrics().AppendEmpty()
			metric.SetName(fmt.Sprintf("bench.family_%03d", i/ofOneMetric))
			metric.SetUnit("1")
			list = metric.SetEmptyGauge().DataPoints()
		}
		point := list.AppendEmpty()
		point.SetTimestamp(pcommon.Timestamp(1_700_000_000_000_000_000))
		point.SetDoubleValue(float64(i) / 3)
		attributes := point.Attributes()
		attributes.PutStr("hw.id", fmt.Sprintf("GPU-3d8f1f1e-aaaa-bbbb-cccc-%012d", i%8))
		attributes.PutStr("hw.name", "NVIDIA H100 80GB HBM3")
		attributes.PutStr("hw.vendor", "nvidia")
		attributes.PutInt("worker", int64(i%ofOneMetric))
		attributes.PutStr("model", "meta-llama/Llama-3.1-70B")
		attributes.PutStr("host.name", "node-17")
	}
	body, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	if err != nil {
		measure.Fail(err)
	}
	return body
}

// raw passes bytes through: the client shall not encode anything while it is watched.
type raw struct{}

func (raw) Name() string { return "proto" }
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = raw{}

func overGrpc(address string, body []byte) func() error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{})))
	if err != nil {
		measure.Fail(err)
	}
	return func() error {
		var answer []byte
		return connection.Invoke(context.Background(), method, body, &answer)
	}
}

func overHttp(address string, body []byte) func() error {
	client := &http.Client{Transport: &http.Transport{}}
	return func() error {
		answer, err := client.Post("http://"+address+"/v1/metrics", "application/x-protobuf", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("answered with %d", answer.StatusCode)
		}
		return nil
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		measure.Fail(err)
	}
	return value
}

func main() {
	if len(os.Args) != 6 {
		measure.Fail(fmt.Errorf("usage: otlpload http|grpc ADDRESS POINTS CONNECTIONS SECONDS"))
	}
	points, connections := number(os.Args[3]), number(os.Args[4])
	body := request(points)
	var (
		group  sync.WaitGroup
		mutex  sync.Mutex
		sent   int
		failed int
		why    string
	)
	begun := time.Now()
	end := begun.Add(time.Duration(number(os.Args[5])) * time.Second)
	for range connections {
		group.Add(1)
		go func() {
			defer group.Done()
			once := overHttp(os.Args[2], body)
			if os.Args[1] == "grpc" {
				once = overGrpc(os.Args[2], body)
			}
			for time.Now().Before(end) {
				err := once()
				mutex.Lock()
				if err == nil {
					sent++
				} else {
					failed++
					why = err.Error()
				}
				mutex.Unlock()
				if err != nil {
					time.Sleep(10 * time.Millisecond) // as a full receiver requests
				}
			}
		}()
	}
	group.Wait()
	result, _ := json.Marshal(map[string]any{"requests": sent, "failed": failed, "why": why, "bytes": len(body),
		"points": points, "seconds": time.Since(begun).Seconds()})
	fmt.Println(string(result))
}
