{{- define "sync-engine.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sync-engine.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sync-engine.labels" -}}
{{ include "sync-engine.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "sync-engine.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "sync-engine.name" .) -}}
{{- else -}}
{{- required "serviceAccount.name: name the ServiceAccount that exists, or set serviceAccount.create" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "sync-engine.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "sync-engine.stateNamespace" -}}
{{- .Values.stateNamespace | default .Release.Namespace -}}
{{- end -}}

{{/* Where a connection's kubeconfig is, as the flags take it. */}}
{{- define "sync-engine.kubeconfig" -}}
{{- $given := .given -}}
{{- if $given.secret -}}
/connections/{{ .name }}/{{ $given.key | default "kubeconfig" }}{{ with $given.context }}#{{ . }}{{ end }}
{{- else if $given.inCluster -}}
in-cluster
{{- else -}}
{{- fail (printf "connections.%s: give `secret`, or `inCluster: true`" .name) -}}
{{- end -}}
{{- end -}}

{{/* A volume of documents: an image, any volume, or ConfigMaps. */}}
{{- define "sync-engine.documents" -}}
{{- $from := .from -}}
{{- if $from.image.reference -}}
image:
  reference: {{ $from.image.reference | quote }}
  pullPolicy: {{ $from.image.pullPolicy | default "IfNotPresent" }}
{{- else if $from.volume -}}
{{ toYaml $from.volume }}
{{- else if or $from.inline $from.configMaps -}}
projected:
  sources:
    {{- if $from.inline }}
    - configMap: {name: {{ .name }}}
    {{- end }}
    {{- range $from.configMaps }}
    - configMap: {name: {{ . | quote }}}
    {{- end }}
{{- else -}}
emptyDir: {}
{{- end -}}
{{- end -}}
