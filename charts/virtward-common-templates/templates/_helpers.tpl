{{- define "common.labels" -}}
app.kubernetes.io/name: virtward-common-templates
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The name of the objects that give access. */}}
{{- define "common.access" -}}{{ .Release.Name }}-templates{{- end }}
