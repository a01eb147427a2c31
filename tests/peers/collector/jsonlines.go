package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"
)

// A receiver that reads a file once, when it starts: one request of OTLP JSON a line, read by the Collector's own
// decoders. The Collector's receiver of such files follows them with a library larger than all the rest here.

const longestLine = 64 << 20

type linesConfig struct {
	Path string `mapstructure:"path"`
}

type linesReceiver struct {
	path string
	log  *zap.Logger
	send func(context.Context, []byte) error
}

func (lines *linesReceiver) Start(ctx context.Context, _ component.Host) error {
	file, err := os.Open(lines.path)
	if err != nil {
		return err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, longestLine)
	count := 0
	for ; scanner.Scan(); count++ {
		if err := lines.send(ctx, scanner.Bytes()); err != nil {
			return fmt.Errorf("%s, line %d: %w", lines.path, count+1, err)
		}
	}
	lines.log.Info("file read", zap.Int("lines", count))
	return scanner.Err()
}

func (*linesReceiver) Shutdown(context.Context) error { return nil }

func linesOf(set receiver.Settings, config component.Config, send func(context.Context, []byte) error) *linesReceiver {
	return &linesReceiver{config.(*linesConfig).Path, set.Logger, send}
}

func linesMetrics(_ context.Context, set receiver.Settings, config component.Config, next consumer.Metrics) (receiver.Metrics, error) {
	return linesOf(set, config, func(ctx context.Context, line []byte) error {
		decoder := pmetric.JSONUnmarshaler{}
		found, err := decoder.UnmarshalMetrics(line)
		if err != nil {
			return err
		}
		return next.ConsumeMetrics(ctx, found)
	}), nil
}

func linesLogs(_ context.Context, set receiver.Settings, config component.Config, next consumer.Logs) (receiver.Logs, error) {
	return linesOf(set, config, func(ctx context.Context, line []byte) error {
		decoder := plog.JSONUnmarshaler{}
		found, err := decoder.UnmarshalLogs(line)
		if err != nil {
			return err
		}
		return next.ConsumeLogs(ctx, found)
	}), nil
}

func linesTraces(_ context.Context, set receiver.Settings, config component.Config, next consumer.Traces) (receiver.Traces, error) {
	return linesOf(set, config, func(ctx context.Context, line []byte) error {
		decoder := ptrace.JSONUnmarshaler{}
		found, err := decoder.UnmarshalTraces(line)
		if err != nil {
			return err
		}
		return next.ConsumeTraces(ctx, found)
	}), nil
}

func jsonLines() receiver.Factory {
	return receiver.NewFactory(component.MustNewType("jsonlines"),
		func() component.Config { return &linesConfig{} },
		receiver.WithMetrics(linesMetrics, component.StabilityLevelDevelopment),
		receiver.WithLogs(linesLogs, component.StabilityLevelDevelopment),
		receiver.WithTraces(linesTraces, component.StabilityLevelDevelopment))
}
