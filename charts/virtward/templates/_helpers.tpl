{{/*
Names are fixed, not made from the release: Virtward is installed once in a cluster, and what people type to
find it or to switch it off is the same everywhere.
*/}}
{{- define "virtward.name" -}}virtward-webhook{{- end }}

{{/* Sorts before virt-api-mutator: the API server calls mutating webhooks in the order of these names. */}}
{{- define "virtward.mutator" -}}mutate.virtward.io{{- end }}

{{/* One Secret for each provider, so that changing the provider never meets a Secret of the other. */}}
{{- define "virtward.secret" -}}
{{- if eq .Values.certificates.provider "self" }}virtward-webhook-cert{{ else }}virtward-webhook-tls{{ end }}
{{- end }}

{{- define "virtward.selector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: webhook
{{- end }}

{{- define "virtward.labels" -}}
{{ include "virtward.selector" . }}
app.kubernetes.io/part-of: virtward
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "virtward.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}
