{{/* The server of the aggregated API of VM templates. */}}
{{- define "virtward.apiserver" -}}virtward-apiserver{{- end }}

{{- define "virtward.apiserverSelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: apiserver
{{- end }}

{{- define "virtward.apiserverLabels" -}}
{{ include "virtward.apiserverSelector" . }}
{{ omit (include "virtward.labels" . | fromYaml) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml }}
{{- end }}

{{/* One Secret for each provider, as for the webhooks. */}}
{{- define "virtward.apiserverSecret" -}}
{{- if eq .Values.certificates.provider "self" }}virtward-apiserver-cert{{ else }}virtward-apiserver-tls{{ end }}
{{- end }}

{{- define "virtward.apiserverImage" -}}
{{- with .Values.templates.server.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}
