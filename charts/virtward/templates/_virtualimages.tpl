{{- define "virtward.virtualImages" -}}virtward-virtualimages{{- end }}

{{- define "virtward.virtualImagesSelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: virtualimages
{{- end }}

{{- define "virtward.virtualImagesLabels" -}}
{{ include "virtward.virtualImagesSelector" . }}
{{ omit (include "virtward.labels" . | fromYaml) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml }}
{{- end }}

{{/* The server from which CDI copies images. One Secret for each provider, as for the webhooks. */}}
{{- define "virtward.copiesServer" -}}
{{- if and .Values.virtualImages.enabled .Values.virtualImages.copies.enabled }}true{{ end }}
{{- end }}

{{- define "virtward.copiesName" -}}virtward-copies{{- end }}

{{- define "virtward.copiesSecret" -}}
{{- if eq .Values.certificates.provider "self" }}virtward-copies-cert{{ else }}virtward-copies-tls{{ end }}
{{- end }}
