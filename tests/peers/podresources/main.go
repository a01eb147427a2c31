// A kubelet as far as its PodResources service goes, with Kubernetes' own messages: podresources SOCKET.
//
// Each line of the standard input is a world: milliseconds to wait before an answer, a blank, and a ListPodResourcesResponse
// as JSON. "ok" is printed once it stands. It ends with its input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

type lister struct {
	podresources.UnimplementedPodResourcesListerServer
	lock  sync.Mutex
	wait  time.Duration
	world *podresources.ListPodResourcesResponse
}

func (l *lister) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	l.lock.Lock()
	wait, world := l.wait, l.world
	l.lock.Unlock()
	select {
	case <-time.After(wait):
		return world, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *lister) take(line string) error {
	wait, text, _ := strings.Cut(line, " ")
	ms, err := strconv.Atoi(wait)
	if err != nil {
		return err
	}
	world := &podresources.ListPodResourcesResponse{}
	if err := protojson.Unmarshal([]byte(text), world); err != nil {
		return err
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	l.wait, l.world = time.Duration(ms)*time.Millisecond, world
	return nil
}

func run(socket string) error {
	at, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	served := &lister{world: &podresources.ListPodResourcesResponse{}}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, served)
	go server.Serve(at)
	defer server.Stop()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if err := served.take(lines.Text()); err != nil {
			return err
		}
		fmt.Println("ok")
	}
	return lines.Err()
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: podresources SOCKET")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "podresources:", err)
		os.Exit(1)
	}
}
