{{/* The name of all objects. */}}
{{- define "gpulens.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels by which objects find each other. Arguments: root, component. */}}
{{- define "gpulens.selector" -}}
app.kubernetes.io/name: gpulens
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "gpulens.labels" -}}
{{ include "gpulens.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gpulens.serviceAccount" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create }}{{ include "gpulens.name" . }}
{{- else }}default{{ end -}}
{{- end -}}

{{- define "gpulens.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end -}}
{{- end -}}

{{/* The vendors that have a DaemonSet, with commas. */}}
{{- define "gpulens.vendors" -}}
{{- $vendors := list -}}
{{- if .Values.monitoring.enabled -}}
{{- range list "nvidia" "amd" "gaudi" -}}{{- if index $.Values.collectors . -}}{{- $vendors = append $vendors . -}}{{- end -}}{{- end -}}
{{- end -}}
{{- join "," $vendors -}}
{{- end -}}

{{/* "true" where the namespace lets agents see the node. */}}
{{- define "gpulens.seesNode" -}}
{{- if eq .Values.podSecurity "privileged" }}true{{ end -}}
{{- end -}}

{{/* "true" where pages and probes of agents use TLS. */}}
{{- define "gpulens.listenerTls" -}}
{{- if or .Values.listener.tlsSecret (and .Values.listener.webConfigSecret .Values.listener.webConfigTls) }}true{{ end -}}
{{- end -}}

{{/* "true" where there is a web configuration for agents. */}}
{{- define "gpulens.listenerWeb" -}}
{{- if or .Values.listener.tlsSecret .Values.listener.tokenSecret .Values.listener.webConfigSecret }}true{{ end -}}
{{- end -}}

{{/* Where agents send: "gateway", "otel", "stdout" or nothing. */}}
{{- define "gpulens.agentSink" -}}
{{- if .Values.monitoring.sink }}{{ .Values.monitoring.sink }}{{ else if .Values.otelCollector.enabled }}gateway{{ end -}}
{{- end -}}

{{/* Three quarters of a memory limit like 256Mi, for limits.memory; nothing for other units. Argument: resources. */}}
{{- define "gpulens.memory" -}}
{{- $limit := dig "limits" "memory" "" . | toString -}}
{{- if regexMatch "^[0-9]+Mi$" $limit }}{{ div (mul (trimSuffix "Mi" $limit | int) 3) 4 }}MiB
{{- else if regexMatch "^[0-9]+Gi$" $limit }}{{ mul (trimSuffix "Gi" $limit | int) 768 }}MiB{{ end -}}
{{- end -}}

{{/* Security contexts that satisfy "restricted". */}}
{{- define "gpulens.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "gpulens.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* An agent's security contexts: root, but without capabilities, where it reads what only root may. */}}
{{- define "gpulens.nodePod" -}}
{{- if include "gpulens.seesNode" . -}}
runAsNonRoot: false
runAsUser: 0
runAsGroup: 0
seccompProfile: {type: RuntimeDefault}
{{- else -}}
{{ include "gpulens.restrictedPod" . }}
{{- end -}}
{{- end -}}

{{/* Probes of a page that is served to the pod's address. Arguments: tls. */}}
{{- define "gpulens.pageProbes" -}}
{{- $scheme := ternary "HTTPS" "HTTP" (eq .tls "true") -}}
startupProbe:
  httpGet: {path: /-/ready, port: http, scheme: {{ $scheme }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /-/healthy, port: http, scheme: {{ $scheme }}}
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /-/ready, port: http, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end -}}

{{/* Probes of an agent whose page only the pod itself reaches. */}}
{{- define "gpulens.execProbes" -}}
startupProbe:
  exec: {command: [/usr/bin/gpulens, check, --alive]}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 24
livenessProbe:
  exec: {command: [/usr/bin/gpulens, check, --alive]}
  periodSeconds: 60
  timeoutSeconds: 10
  failureThreshold: 3
{{- end -}}

{{- define "gpulens.nodeEnv" -}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: NODE_IP
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end -}}

{{/* Affinity to the nodes of a vendor, unless the values have one. Arguments: root, vendor. */}}
{{- define "gpulens.nodeAffinity" -}}
{{- $labels := (index .root.Values .vendor).nodeLabels -}}
{{- if .root.Values.monitoring.affinity -}}
{{ toYaml .root.Values.monitoring.affinity }}
{{- else if $labels -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    {{- range $labels }}
      - matchExpressions: [{{ toJson . }}]
    {{- end }}
{{- end -}}
{{- end -}}

{{/* What a vendor's container needs to see its GPUs. Arguments: root, vendor. */}}
{{- define "gpulens.gpuPrivileged" -}}
{{- if or (ne .vendor "nvidia") .root.Values.nvidia.hostDriver.enabled }}true{{ end -}}
{{- end -}}

{{- define "gpulens.gpuRuntimeClass" -}}
{{- if eq .vendor "nvidia" }}{{ .root.Values.nvidia.runtimeClassName }}{{ else if eq .vendor "gaudi" }}{{ .root.Values.gaudi.runtimeClassName }}{{ end -}}
{{- end -}}

{{- define "gpulens.gpuEnv" -}}
{{- if eq .vendor "nvidia" -}}
- {name: NVIDIA_VISIBLE_DEVICES, value: all}
- {name: NVIDIA_DRIVER_CAPABILITIES, value: utility}
{{- else if eq .vendor "gaudi" -}}
- {name: HABANA_VISIBLE_DEVICES, value: all}
{{- end -}}
{{- end -}}

{{- define "gpulens.agentImage" -}}
{{- $own := index .root.Values .vendor -}}
{{- if $own.image }}{{ $own.image }}{{ else }}{{ include "gpulens.image" .root }}{{ end -}}
{{- end -}}

{{- define "gpulens.priorityClass" -}}
{{- if .Values.priorityClass.name }}{{ .Values.priorityClass.name }}{{ else if .Values.priorityClass.create }}{{ include "gpulens.name" . }}{{ end -}}
{{- end -}}
