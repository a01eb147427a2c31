{{/* A web configuration made of a token and a certificate. Argument: values with tokenSecret and tlsSecret. */}}
{{- define "gpulens.webConfig" -}}
{{- if .tokenSecret }}
bearer_token_file: /etc/gpulens-web/token
{{- end }}
{{- if .tlsSecret }}
tls_server_config: {cert_file: /etc/gpulens-tls/tls.crt, key_file: /etc/gpulens-tls/tls.key}
{{- end }}
{{- end -}}

{{/* The sink of agents and probes, as YAML. */}}
{{- define "gpulens.agentSinks" -}}
{{- $to := include "gpulens.agentSink" . -}}
{{- $o := .Values.otelCollector -}}
{{- if eq $to "stdout" }}
stdout: {enabled: true, interval: {{ .Values.monitoring.interval }}s}
{{- else if eq $to "gateway" }}
{{- $scheme := ternary "https" "http" (ne $o.tlsSecret "") }}
{{- $name := include "gpulens.name" . }}
otlp:
  interval: {{ .Values.monitoring.interval }}s
  names: {{ toJson .Values.monitoring.names }}
  balance: hash
  endpoints:
  {{- range $i := until (int $o.replicas) }}
    - {{ printf "%s://%s-gateway-%d.%s-gateway-pods:4318" $scheme $name $i $name | quote }}
  {{- end }}
  {{- if or $o.tokenSecret $o.tlsSecret }}
  transport:
    {{- if $o.tokenSecret }}
    bearer_token_file: /etc/gpulens-gateway/token
    {{- end }}
    {{- if $o.tlsSecret }}
    tls: {ca_file: /etc/gpulens-gateway/ca.crt, server_name: {{ $name }}-gateway}
    {{- end }}
  {{- end }}
{{- else if eq $to "otel" }}
otlp:
  interval: {{ .Values.monitoring.interval }}s
  names: {{ toJson .Values.monitoring.names }}
  endpoint: {{ $o.otlpEndpoint | quote }}
  protocol: {{ $o.otlpProtocol }}
  {{- include "gpulens.backendTransport" . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "gpulens.backendTransport" -}}
{{- if or .Values.otlpSecretName .Values.otelCollector.otlpHeaders }}
transport:
  {{- if .Values.otlpSecretName }}
  bearer_token_file: /etc/gpulens-backend/token
  {{- end }}
  {{- with .Values.otelCollector.otlpHeaders }}
  headers: {{ toJson . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Who and where, of every configuration. Arguments: root, resources, service. */}}
{{- define "gpulens.commonConfig" -}}
websocket: {listen: []}
state_dir: /var/lib/gpulens
{{- with include "gpulens.memory" .resources }}
limits: {memory: {{ . }}}
{{- end }}
{{- with .root.Values.monitoring.cluster }}
attributes: {cluster: {{ . | quote }}}
{{- end }}
resource:
  service_name: {{ .service }}
  {{- with .root.Values.monitoring.cluster }}
  cluster: {{ . | quote }}
  {{- end }}
  attributes:
    service.instance.id: "${NODE_NAME:-unknown}"
    host.name: "${NODE_NAME:-unknown}"
    k8s.node.name: "${NODE_NAME:-unknown}"
{{- end -}}

{{/* The configuration of a vendor's agents. Arguments: root, vendor. */}}
{{- define "gpulens.agentConfig" -}}
{{- $v := .root.Values -}}
{{- $m := $v.monitoring -}}
{{- $node := include "gpulens.seesNode" .root -}}
{{- $programs := and $node $m.hostPaths.programs -}}
{{- $cloud := or $v.cloud.enabled (and $v.costMonitor.enabled (empty $v.costMonitor.costPerGpuHour)) -}}
interval: {{ $m.readingInterval }}s
metrics: {{ $m.metrics }}
{{ include "gpulens.commonConfig" (dict "root" .root "resources" $m.resources "service" "gpulens") }}
http:
  {{- if $v.listener.enabled }}
  listen: [":{{ $v.listener.port }}"]
  {{- if include "gpulens.listenerWeb" .root }}
  web_config: /etc/gpulens-web/web.yml
  {{- end }}
  {{- if or $v.listener.allowUnauthenticated $v.listener.allowUnencrypted }}
  insecure: true
  {{- end }}
  {{- else }}
  listen: ["127.0.0.1:9091"]
  {{- end }}
collectors:
  nvidia: {enabled: {{ eq .vendor "nvidia" }}{{ if eq .vendor "nvidia" }}, interval: {{ $m.readingInterval }}s{{ end }}}
  amd: {enabled: {{ eq .vendor "amd" }}{{ if eq .vendor "amd" }}, interval: {{ $m.readingInterval }}s{{ end }}}
  gaudi: {enabled: {{ eq .vendor "gaudi" }}}
  {{- if and $node $m.hostMetrics }}
  host:
    root: /host
    {{- if not $m.hostFilesystems }}
    # They are not mounted here: their names would get the numbers of the container's own.
    filesystems: {exclude: ["*"]}
    {{- end }}
  {{- else }}
  host: {enabled: false}
  {{- end }}
  kernel_log: {enabled: false}
  programs: {enabled: {{ not (empty $programs) }}{{ if $programs }}, socket: /run/gpulens-programs/otlp.sock{{ end }}}
  gpu_pods: {enabled: {{ and (not (empty $node)) $m.podNames }}}
  {{- if $m.kubeletStats }}
  kubelet_stats: {enabled: true{{ if $m.kubeletInsecureTls }}, transport: {tls: {insecure_skip_verify: true}}{{ end }}}
  {{- else }}
  kubelet_stats: {enabled: false}
  {{- end }}
  k8s_cluster: {enabled: false}
  {{- if $v.xpuPerf.enabled }}
  probes: {enabled: true, probes: {{ toJson $v.xpuPerf.probes }}{{ with $v.xpuPerf.targets }}, targets: {{ toJson . }}{{ end }}}
  {{- end }}
  {{- if $m.slurmEnabled }}
  slurm: {enabled: true{{ if $m.hostPaths.slurm }}, programs: /slurm/programs{{ end }}}
  {{- else }}
  slurm: {enabled: false}
  {{- end }}
analyzers:
  fleet_health: {enabled: {{ $v.fleetHealth.enabled }}, window: {{ $v.fleetHealth.healthWindowSeconds }}s}
  cost:
    enabled: {{ $v.costMonitor.enabled }}
    {{- if and $v.costMonitor.enabled (not (empty $v.costMonitor.costPerGpuHour)) }}
    price_per_gpu_hour: {{ $v.costMonitor.costPerGpuHour | toString | quote }}
    {{- end }}
enrichers:
  {{- if and $node $m.podNames }}
  kubernetes:
    root: /host
    {{- if ne $m.hostPaths.kubelet "/var/lib/kubelet" }}
    pod_resources_socket: {{ $m.hostPaths.kubelet }}/pod-resources/kubelet.sock
    checkpoint: {{ $m.hostPaths.kubelet }}/device-plugins/kubelet_internal_checkpoint
    {{- end }}
  {{- else }}
  kubernetes: {enabled: false}
  {{- end }}
  {{- if $m.slurmEnabled }}
  slurm:
    enabled: true
    {{- if $m.hostPaths.slurm }}
    programs: /slurm/programs
    {{- end }}
    {{- if $m.hostPaths.slurmJobMapping }}
    job_mapping: /slurm/jobs
    {{- end }}
  {{- else }}
  slurm: {enabled: false}
  {{- end }}
  cloud:
    enabled: {{ $cloud }}
    provider: {{ $v.cloud.provider }}
    {{- with $v.cloud.endpoint }}
    endpoint: {{ . | quote }}
    {{- end }}
discovery:
  local: {enabled: {{ $m.hostNetwork }}}
sinks:
  prometheus: {names: {{ toJson $m.names }}}
  {{- include "gpulens.agentSinks" .root | nindent 2 }}
{{- $targets := list }}
{{- range list "vllm" "triton" "sglang" "tgi" "nim" }}
{{- if index $v.collectors . }}
{{- $targets = append $targets (dict "name" . "kind" . "url" (index $v (printf "%sEndpoint" .)) "interval" (printf "%vs" $v.otelCollector.scrapeIntervalSeconds) "optional" true) }}
{{- end }}
{{- end }}
{{- with $targets }}
targets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The configuration of probes: the kernel log alone. */}}
{{- define "gpulens.probesConfig" -}}
{{ include "gpulens.commonConfig" (dict "root" . "resources" .Values.probes.resources "service" "gpulens-probes") }}
http: {listen: ["127.0.0.1:9091"]}
collectors:
  {{- range list "nvidia" "amd" "gaudi" "host" "programs" "gpu_pods" "kubelet_stats" "k8s_cluster" "slurm" }}
  {{ . }}: {enabled: false}
  {{- end }}
  kernel_log: {enabled: true, source: kmsg}
enrichers:
  kubernetes: {enabled: false}
  slurm: {enabled: false}
discovery: {local: {enabled: false}}
sinks:
  {{- include "gpulens.agentSinks" . | nindent 2 }}
{{- end -}}

{{/* The configuration of the gateway: receives, keeps, sends on. */}}
{{- define "gpulens.gatewayConfig" -}}
{{- $o := .Values.otelCollector -}}
{{- $insecure := not (and $o.tokenSecret $o.tlsSecret) -}}
websocket: {listen: []}
state_dir: /var/lib/gpulens
{{- with include "gpulens.memory" $o.resources }}
limits: {memory: {{ . }}}
{{- end }}
resource:
  service_name: gpulens-gateway
  attributes: {service.instance.id: "${POD_NAME:-unknown}"}
http:
  listen: [":{{ $o.port }}"]
  {{- if or $o.tokenSecret $o.tlsSecret }}
  web_config: /etc/gpulens-web/web.yml
  {{- end }}
  {{- if $insecure }}
  insecure: true
  {{- end }}
receivers:
  otlp:
    insecure: {{ $insecure }}
    http: {listen: [":4318"]}
    grpc: {listen: [":4317"]}
  remote_write:
    insecure: {{ $insecure }}
    http: {listen: [":9095"]}
collectors:
  {{- range list "nvidia" "amd" "gaudi" "host" "kernel_log" "programs" "gpu_pods" "kubelet_stats" "slurm" }}
  {{ . }}: {enabled: false}
  {{- end }}
  {{- if $o.clusterMetrics }}
  k8s_cluster: {enabled: true, scope: cluster, node_name: "${NODE_NAME:-unknown}"}
  {{- else }}
  k8s_cluster: {enabled: false}
  {{- end }}
enrichers:
  kubernetes: {enabled: false}
  slurm: {enabled: false}
discovery: {local: {enabled: false}}
sinks:
  {{- if $o.otlpEndpoint }}
  otlp:
    endpoint: {{ $o.otlpEndpoint | quote }}
    protocol: {{ $o.otlpProtocol }}
    queue: {max_bytes: {{ $o.persistence.queue }}}
    {{- include "gpulens.backendTransport" . | nindent 4 }}
  {{- end }}
  {{- if $o.remoteWriteUrl }}
  remote_write:
    url: {{ $o.remoteWriteUrl | quote }}
    queue: {max_bytes: {{ $o.persistence.queue }}}
    {{- if .Values.otlpSecretName }}
    transport: {bearer_token_file: /etc/gpulens-backend/token}
    {{- end }}
  {{- end }}
{{- end -}}

{{/* One configuration with the values' own merged over it. Arguments: made, own. */}}
{{- define "gpulens.merged" -}}
{{- $made := fromYaml .made -}}
{{- if hasKey $made "Error" }}{{ fail (printf "the chart made no YAML: %s" $made.Error) }}{{ end -}}
{{- toYaml (mergeOverwrite $made (deepCopy .own)) -}}
{{- end -}}
