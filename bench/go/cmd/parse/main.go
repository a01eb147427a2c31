// parse FILE RUNS: how long the parsers of Prometheus and VictoriaMetrics take for a page.
package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"time"
	"unsafe"

	vmprometheus "github.com/VictoriaMetrics/VictoriaMetrics/lib/protoparser/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"gpulens/bench/measure"
)

const span = 100 * time.Millisecond

// textparseLabels builds the label set of every sample, as Prometheus does for a series that it has
// not seen before.
func textparseLabels(page []byte) func() (int, int) {
	symbols := labels.NewSymbolTable()
	return func() (int, int) {
		parser := textparse.NewPromParser(page, symbols, false)
		samples := 0
		var set labels.Labels
		for {
			entry, err := parser.Next()
			if errors.Is(err, io.EOF) {
				return len(page), samples
			}
			if err != nil {
				measure.Fail(err)
			}
			if entry == textparse.EntrySeries {
				parser.Series()
				parser.Labels(&set)
				samples++
			}
		}
	}
}

// victoriaMetrics splits the page into rows of names, tags and values.
func victoriaMetrics(page []byte) func() (int, int) {
	var rows vmprometheus.Rows
	text := unsafe.String(unsafe.SliceData(page), len(page))
	return func() (int, int) {
		rows.Reset()
		rows.UnmarshalWithErrLogger(text, func(message string) { measure.Fail(errors.New(message)) })
		return len(page), len(rows.Rows)
	}
}

func main() {
	if len(os.Args) != 3 {
		measure.Fail(errors.New("usage: parse FILE RUNS"))
	}
	page, err := os.ReadFile(os.Args[1])
	if err != nil {
		measure.Fail(err)
	}
	runs, err := strconv.Atoi(os.Args[2])
	if err != nil {
		measure.Fail(err)
	}
	measure.Run("victoriametrics", measure.VersionOf("github.com/VictoriaMetrics/VictoriaMetrics"), runs, span,
		victoriaMetrics(page))
	measure.Run("textparse_labels", measure.VersionOf("github.com/prometheus/prometheus"), runs, span,
		textparseLabels(page))
}
