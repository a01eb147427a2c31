// Package measure times one function on one thread and prints what it found as a line of JSON.
package measure

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Result is one line of output. Times are of one call.
type Result struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Bytes   int       `json:"bytes"`
	Samples int       `json:"samples"`
	WallNs  []float64 `json:"wall_ns"`
	CPUNs   []float64 `json:"cpu_ns"`
	Allocs  float64   `json:"allocs"`
}

func cpuNs() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		Fail(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// Fail ends the program with a message.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Run calls f for about `span` in each of `runs` runs and prints the result. f returns the bytes and
// samples of one call. Garbage collection is part of what is timed: it runs on the same thread.
func Run(name, version string, runs int, span time.Duration, f func() (int, int)) {
	runtime.GOMAXPROCS(1)
	result := Result{Name: name, Version: version}
	result.Bytes, result.Samples = f()
	start := time.Now()
	f()
	calls := int(span/(time.Since(start)+1)) + 1
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		wall, cpu := time.Now(), cpuNs()
		for range calls {
			f()
		}
		result.WallNs = append(result.WallNs, float64(time.Since(wall).Nanoseconds())/float64(calls))
		result.CPUNs = append(result.CPUNs, float64(cpuNs()-cpu)/float64(calls))
	}
	runtime.ReadMemStats(&after)
	result.Allocs = float64(after.Mallocs-before.Mallocs) / float64(runs*calls)
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		Fail(err)
	}
}
