{{/*
The Service and the ServiceMonitor of the metrics of a process. Arguments: the root context, the prefix of the templates
with the name, the selector and the labels of the process, and its port.
*/}}
{{- define "virtward.metrics" -}}
{{- $root := index . 0 }}
{{- $name := include (index . 1) $root }}
{{- $selector := include (printf "%sSelector" (index . 1)) $root }}
{{- $labels := include (printf "%sLabels" (index . 1)) $root }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}-metrics
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
    virtward.io/service: metrics
spec:
  selector:
    {{- $selector | nindent 4 }}
  ports:
    - name: metrics
      port: {{ int (index . 2) }}
      targetPort: metrics
{{- if $root.Values.metrics.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- mergeOverwrite (dict) (default (dict) $root.Values.metrics.serviceMonitor.labels) (fromYaml $labels) | toYaml | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
      virtward.io/service: metrics
  endpoints:
    - port: metrics
      path: /metrics
      interval: {{ $root.Values.metrics.serviceMonitor.interval }}
{{- end }}
{{- end }}

{{/*
The disruption budget of a process. Arguments: the root context, the prefix as for virtward.metrics, and the number of
replicas.
*/}}
{{- define "virtward.budget" -}}
{{- $root := index . 0 }}
{{- if gt (int (index . 2)) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include (index . 1) $root }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include (printf "%sLabels" (index . 1)) $root | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include (printf "%sSelector" (index . 1)) $root | nindent 6 }}
{{- end }}
{{- end }}
