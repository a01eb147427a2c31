// A client of external scalers with KEDA's own generated messages and Go's gRPC: keda-client ADDRESS [CA CERTIFICATE KEY].
//
// Each line of the standard input is a JSON object with method, name, namespace, metadata, and metric of GetMetrics;
// each answer is a line: {"code": "OK", …}. StreamIsActive answers a line for each message, until the next line of input.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

type call struct {
	Method, Name, Namespace, Metric string
	Metadata                        map[string]string
}

type answer struct {
	Code    string             `json:"code"`
	Message string             `json:"message,omitempty"`
	Active  *bool              `json:"active,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Whole   map[string]int64   `json:"whole,omitempty"` // as KEDA before 2.17 reads them
}

func print(one answer) {
	line, _ := json.Marshal(one)
	fmt.Println(string(line))
}

func failed(err error) bool {
	if err != nil {
		print(answer{Code: status.Code(err).String(), Message: status.Convert(err).Message()})
	}
	return err != nil
}

func transport() grpc.DialOption {
	if len(os.Args) < 3 {
		return grpc.WithTransportCredentials(insecure.NewCredentials())
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if ca, err := os.ReadFile(os.Args[2]); err != nil || !config.RootCAs.AppendCertsFromPEM(ca) {
		panic("no certificate in " + os.Args[2])
	}
	if len(os.Args) > 4 {
		own, err := tls.LoadX509KeyPair(os.Args[3], os.Args[4])
		if err != nil {
			panic(err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return grpc.WithTransportCredentials(credentials.NewTLS(config))
}

func run(client pb.ExternalScalerClient, one call, ctx context.Context) {
	object := &pb.ScaledObjectRef{Name: one.Name, Namespace: one.Namespace, ScalerMetadata: one.Metadata}
	switch one.Method {
	case "IsActive":
		if got, err := client.IsActive(ctx, object); !failed(err) {
			active := got.GetResult()
			print(answer{Code: "OK", Active: &active})
		}
	case "GetMetricSpec":
		if got, err := client.GetMetricSpec(ctx, object); !failed(err) {
			out := answer{Code: "OK", Metrics: map[string]float64{}, Whole: map[string]int64{}}
			for _, spec := range got.GetMetricSpecs() {
				out.Metrics[spec.GetMetricName()] = spec.GetTargetSizeFloat()
				out.Whole[spec.GetMetricName()] = spec.GetTargetSize()
			}
			print(out)
		}
	case "GetMetrics":
		if got, err := client.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: object, MetricName: one.Metric}); !failed(err) {
			out := answer{Code: "OK", Metrics: map[string]float64{}, Whole: map[string]int64{}}
			for _, value := range got.GetMetricValues() {
				out.Metrics[value.GetMetricName()] = value.GetMetricValueFloat()
				out.Whole[value.GetMetricName()] = value.GetMetricValue()
			}
			print(out)
		}
	case "StreamMetricSpec": // KEDA opens it, too, and goes on without when it is unimplemented
		stream, err := client.StreamMetricSpec(ctx, object)
		if !failed(err) {
			_, err = stream.Recv()
			failed(err)
		}
	default:
		print(answer{Code: "Unimplemented", Message: "no method " + one.Method})
	}
}

func stream(client pb.ExternalScalerClient, one call, ctx context.Context) {
	object := &pb.ScaledObjectRef{Name: one.Name, Namespace: one.Namespace, ScalerMetadata: one.Metadata}
	messages, err := client.StreamIsActive(ctx, object)
	if failed(err) {
		return
	}
	for {
		got, err := messages.Recv()
		if ctx.Err() != nil || failed(err) {
			return
		}
		active := got.GetResult()
		print(answer{Code: "OK", Active: &active})
	}
}

func main() {
	connection, err := grpc.NewClient(os.Args[1], transport())
	if err != nil {
		panic(err)
	}
	client := pb.NewExternalScalerClient(connection)
	end := func() {}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		end()
		var one call
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			panic(err)
		}
		if one.Method == "StreamIsActive" {
			ctx, cancel := context.WithCancel(context.Background())
			end = cancel
			go stream(client, one, ctx)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		run(client, one, ctx)
		cancel()
	}
	end()
}
