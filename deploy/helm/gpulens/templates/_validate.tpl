{{/* What the schema cannot say: values that contradict each other, and choices that nobody made. */}}
{{- define "gpulens.validate" -}}
{{- $v := .Values -}}
{{- $vendors := include "gpulens.vendors" . -}}
{{- if $v.nccl.enabled }}{{ fail "nccl.enabled: the chart loads nothing into the pods of jobs: docs/nccl-plugin.md has how they load the plugin; set it to false" }}{{ end -}}
{{- if $v.xpuPerf.enabled -}}
{{- if ne $v.podSecurity "privileged" }}{{ fail "podSecurity: restricted: xpuPerf.enabled takes a container with CAP_BPF and CAP_PERFMON; set podSecurity: privileged" }}{{ end -}}
{{- if not $v.monitoring.hostPID }}{{ fail "xpuPerf.enabled: probes follow processes of the node by their numbers there; set monitoring.hostPID: true" }}{{ end -}}
{{- if not $vendors }}{{ fail "xpuPerf.enabled needs a vendor: the container is one of its agents' pods" }}{{ end -}}
{{- if and $v.xpuPerf.probes (not $v.xpuPerf.targets) }}{{ fail "xpuPerf.probes: set xpuPerf.targets, the processes to which they are attached" }}{{ end -}}
{{- end -}}
{{- if not (or $vendors $v.otelCollector.enabled $v.scaler.enabled $v.proxy.enabled) }}{{ fail "nothing would be installed: set collectors.nvidia, .amd or .gaudi with monitoring.enabled, otelCollector.enabled, scaler.enabled or proxy.enabled" }}{{ end -}}
{{- $engines := or $v.collectors.vllm $v.collectors.triton $v.collectors.sglang $v.collectors.tgi $v.collectors.nim -}}
{{- if and $engines (not $vendors) }}{{ fail "collectors.vllm, .triton, .sglang, .tgi and .nim are read by agents: set collectors.nvidia, .amd or .gaudi, too, with monitoring.enabled. A gateway reads pages by otelCollector.config.targets" }}{{ end -}}
{{- if and $v.collectors.nim $v.collectors.vllm (eq $v.nimEndpoint $v.vllmEndpoint) }}{{ fail "nimEndpoint and vllmEndpoint are the same page: change one of them, or leave out collectors.nim or collectors.vllm" }}{{ end -}}
{{- if and (has "gaudi" (splitList "," $vendors)) (not $v.gaudi.image) }}{{ fail "collectors.gaudi needs gaudi.image, an image with gpulens and hl-smi: the image of gpulens does not have that program; docs/chart.md shows how to make one" }}{{ end -}}
{{- if and (has "amd" (splitList "," $vendors)) (not (or $v.amd.image $v.amd.rocmFolder)) }}{{ fail "collectors.amd needs amd.rocmFolder, where the node has ROCm, or amd.image" }}{{ end -}}

{{- if ne $v.podSecurity "privileged" -}}
{{- if or (has "amd" (splitList "," $vendors)) (has "gaudi" (splitList "," $vendors)) }}{{ fail "podSecurity: restricted: AMD and Gaudi cards are devices of the node, which take a privileged container; set podSecurity: privileged" }}{{ end -}}
{{- if $v.nvidia.hostDriver.enabled }}{{ fail "podSecurity: restricted: nvidia.hostDriver takes a privileged container; set podSecurity: privileged, or use a RuntimeClass" }}{{ end -}}
{{- if $v.probes.enabled }}{{ fail "podSecurity: restricted: probes.enabled takes a privileged container; set podSecurity: privileged" }}{{ end -}}
{{- if $v.monitoring.slurmEnabled }}{{ fail "podSecurity: restricted: monitoring.slurmEnabled needs folders and processes of the node; set podSecurity: privileged" }}{{ end -}}
{{- range list "hostNetwork" "hostFilesystems" }}
{{- if index $v.monitoring . }}{{ fail (printf "podSecurity: restricted: monitoring.%s needs podSecurity: privileged" .) }}{{ end -}}
{{- end -}}
{{- if $v.monitoring.hostPaths.programs }}{{ fail "podSecurity: restricted: monitoring.hostPaths.programs needs podSecurity: privileged" }}{{ end -}}
{{- end -}}

{{- $l := $v.listener -}}
{{- if and $l.webConfigSecret (or $l.tokenSecret $l.tlsSecret) }}{{ fail "listener: webConfigSecret holds everything; leave out tokenSecret and tlsSecret, or webConfigSecret" }}{{ end -}}
{{- if $l.enabled -}}
{{- if not (or $l.tokenSecret $l.webConfigSecret $l.allowUnauthenticated) }}{{ fail "listener.enabled: everyone in the cluster could read the agents' pages. Set listener.tokenSecret (a Secret with the key token) and listener.tlsSecret, or listener.webConfigSecret; or choose listener.allowUnauthenticated: true" }}{{ end -}}
{{- if and (not $l.allowUnauthenticated) (not (include "gpulens.listenerTls" .)) (not $l.allowUnencrypted) }}{{ fail "listener: the token or password would cross the network as plain text. Set listener.tlsSecret (webConfigTls with webConfigSecret), or choose listener.allowUnencrypted: true" }}{{ end -}}
{{- else if $vendors -}}
{{- if not (include "gpulens.agentSink" .) }}{{ fail "nothing would get the agents' numbers. Choose: listener.enabled: true, and Prometheus scrapes them; otelCollector.enabled: true, and they send to the gateway; or monitoring.sink: otel, and they send to otelCollector.otlpEndpoint" }}{{ end -}}
{{- if or $v.monitors.podMonitor (and $v.monitors.serviceMonitor (not $v.otelCollector.enabled)) }}{{ fail "monitors.podMonitor and serviceMonitor scrape agents: set listener.enabled: true" }}{{ end -}}
{{- end -}}
{{- if and $v.monitors.podMonitor $v.monitors.serviceMonitor }}{{ fail "monitors: with podMonitor and serviceMonitor Prometheus would read every agent twice; choose one" }}{{ end -}}

{{- $o := $v.otelCollector -}}
{{- if $o.enabled -}}
{{- if not (or $o.otlpEndpoint $o.remoteWriteUrl) }}{{ fail "otelCollector: a gateway that sends nowhere would lose what it receives; set otelCollector.otlpEndpoint or remoteWriteUrl" }}{{ end -}}
{{- if not (or $o.tokenSecret $v.networkPolicy.enabled $o.allowUnauthenticated) }}{{ fail "otelCollector: without networkPolicy.enabled and tokenSecret everyone in the cluster could send to the gateway. Set one of them, or choose otelCollector.allowUnauthenticated: true" }}{{ end -}}
{{- if and $o.tokenSecret (not $o.tlsSecret) (not $o.allowUnencrypted) }}{{ fail "otelCollector: the token would cross the network as plain text. Set otelCollector.tlsSecret, or choose otelCollector.allowUnencrypted: true" }}{{ end -}}
{{- else if and (eq $v.monitoring.sink "otel") (not $o.otlpEndpoint) }}{{ fail "monitoring.sink: otel needs otelCollector.otlpEndpoint" }}{{ end -}}
{{- if and $v.probes.enabled (not $vendors) }}{{ fail "probes.enabled needs a vendor: it runs on the nodes of its agents" }}{{ end -}}

{{- $p := $v.proxy -}}
{{- if $p.enabled -}}
{{- if not $p.config.providers }}{{ fail "proxy.enabled: set proxy.config.providers, as in docs/proxy.md" }}{{ end -}}
{{- if not $p.keysSecret }}{{ fail "proxy.enabled: set proxy.keysSecret, a Secret with the file of virtual keys: gpulens proxy keys new --file keys.tsv --id NAME --tenant NAME, then kubectl create secret generic NAME --from-file=keys.tsv" }}{{ end -}}
{{- if not (or $p.tlsSecret $p.allowUnencrypted) }}{{ fail "proxy: virtual keys and prompts would cross the network as plain text. Set proxy.tlsSecret, or choose proxy.allowUnencrypted: true" }}{{ end -}}
{{- if and (not $p.persistence.enabled) (not $p.config.stores) }}{{ fail "proxy.persistence.enabled: false: charges would end with the pod. Set proxy.config.stores to a PostgreSQL or ClickHouse server, or leave persistence on" }}{{ end -}}
{{- if and (gt (int $p.replicas) 1) $p.config.budgets (not (dig "budget_engine" "url" "" $p.config)) }}{{ fail "proxy.replicas: each replica would allow the whole of each budget. Set proxy.config.budget_engine.url and shared: true in the budgets, or one replica" }}{{ end -}}
{{- end -}}

{{- if $v.scaler.enabled -}}
{{- if not $v.scaler.selector }}{{ fail "scaler.enabled: set scaler.selector, the labels of the engines' pods, like app=chat" }}{{ end -}}
{{- if not (or $v.scaler.tlsSecret $v.networkPolicy.enabled $v.scaler.allowUnauthenticated) }}{{ fail "scaler: without networkPolicy.enabled and scaler.tlsSecret everyone in the cluster could query it. Set one of them, or choose scaler.allowUnauthenticated: true" }}{{ end -}}
{{- end -}}
{{- end -}}
