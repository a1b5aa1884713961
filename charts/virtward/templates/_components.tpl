{{/*
What the objects of several components share. A component is a process of this chart, and its objects are named
virtward-COMPONENT. The first arguments of a template are the root context and the component, unless it says otherwise.
*/}}
{{- define "virtward.componentSelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "virtward.componentLabels" -}}
{{- $root := index . 0 }}
{{- include "virtward.componentSelector" . }}
app.kubernetes.io/part-of: virtward
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The labels of a component, and those of a value. The third argument is that value, which overwrites none of them. */}}
{{- define "virtward.labelsWith" -}}
{{- mergeOverwrite (dict) (default (dict) (index . 2)) (include "virtward.componentLabels" . | fromYaml) | toYaml }}
{{- end }}

{{/* The metadata of an object in the namespace of the release. A third argument is the end of its name. */}}
{{- define "virtward.metadata" -}}
name: virtward-{{ index . 1 }}{{ if gt (len .) 2 }}{{ index . 2 }}{{ end }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "virtward.componentLabels" . | nindent 2 }}
{{- end }}

{{/* The metadata of an object without a namespace. */}}
{{- define "virtward.clusterMetadata" -}}
name: virtward-{{ index . 1 }}
labels:
  {{- include "virtward.componentLabels" . | nindent 2 }}
{{- end }}

{{/* Accounts and their permissions. */}}

{{- define "virtward.subject" -}}
- kind: ServiceAccount
  name: virtward-{{ index . 1 }}
  namespace: {{ (index . 0).Release.Namespace }}
{{- end }}

{{/* The account of a component, and the binding of its ClusterRole. */}}
{{- define "virtward.account" -}}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "virtward.metadata" . | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "virtward.clusterMetadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: virtward-{{ index . 1 }}
subjects:
  {{- include "virtward.subject" . | nindent 2 }}
{{- end }}

{{/* The binding of a Role in the namespace of the release. A third argument is the end of its name. */}}
{{- define "virtward.roleBinding" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "virtward.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: virtward-{{ index . 1 }}{{ if gt (len .) 2 }}{{ index . 2 }}{{ end }}
subjects:
  {{- include "virtward.subject" . | nindent 2 }}
{{- end }}

{{/* The rules of a Role for a process of which one replica leads. */}}
{{- define "virtward.leaderRules" -}}
# The lease of the leader. RBAC cannot limit creation to a name; it can limit updates.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [virtward-{{ index . 1 }}]
  verbs: [get, update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* The bindings of the Roles that allow to read parameters of policies. */}}
{{- define "virtward.paramsBindings" -}}
{{- $root := index . 0 }}
{{- $self := . }}
{{- range $root.Values.policies.paramsNamespaces | default (list $root.Release.Namespace) }}
---
# ConfigMaps with parameters of policies, by the Role of the webhook.
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: virtward-{{ index $self 1 }}-params
  namespace: {{ . }}
  labels:
    {{- include "virtward.componentLabels" $self | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "virtward.name" $root }}-params
subjects:
  {{- include "virtward.subject" $self | nindent 2 }}
{{- end }}
{{- end }}

{{/* Certificates: the third argument is the Service. */}}

{{/*
The name of the Secret of a Service, without an argument for the component. Each provider has one of its own, so that a
change of the provider never reuses the Secret of the other.
*/}}
{{- define "virtward.certificateSecret" -}}
virtward-{{ index . 1 }}-{{ ternary "cert" "tls" (eq (index . 0).Values.certificates.provider "self") }}
{{- end }}

{{/* The Secret that the controller fills, or the Certificate of cert-manager. */}}
{{- define "virtward.certificate" -}}
{{- $root := index . 0 }}
{{- $service := index . 2 }}
{{- $secret := include "virtward.certificateSecret" (list $root $service) }}
---
{{- if eq $root.Values.certificates.provider "self" }}
# Empty: the controller fills it, and pods that mount it wait. An upgrade does not change its data, because the chart
# writes none.
apiVersion: v1
kind: Secret
metadata:
  name: {{ $secret }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "virtward.componentLabels" . | nindent 4 }}
type: Opaque
{{- else }}
{{- $settings := $root.Values.certificates.certManager }}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: virtward-{{ $service }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "virtward.componentLabels" . | nindent 4 }}
spec:
  secretName: {{ $secret }}
  duration: {{ $settings.duration }}
  renewBefore: {{ $settings.renewBefore }}
  privateKey:
    algorithm: ECDSA
    size: 256
    rotationPolicy: Always
  usages: [digital signature, server auth]
  dnsNames:
    - virtward-{{ $service }}.{{ $root.Release.Namespace }}.svc
    - virtward-{{ $service }}.{{ $root.Release.Namespace }}.svc.cluster.local
  issuerRef:
    {{- if $settings.issuerRef.name }}
    name: {{ $settings.issuerRef.name }}
    kind: {{ default "Issuer" $settings.issuerRef.kind }}
    group: {{ default "cert-manager.io" $settings.issuerRef.group }}
    {{- else }}
    name: {{ include "virtward.name" $root }}
    kind: Issuer
    group: cert-manager.io
    {{- end }}
{{- end }}
{{- end }}

{{/* Pods. */}}

{{/* The metadata of a pod. A third argument has annotations of its own. */}}
{{- define "virtward.podMetadata" -}}
{{- $pod := (index . 0).Values.pod }}
{{- $annotations := dict "kubectl.kubernetes.io/default-container" "virtward" }}
{{- if gt (len .) 2 }}
{{- $annotations = merge $annotations (index . 2) }}
{{- end }}
labels:
  {{- include "virtward.labelsWith" (list (index . 0) (index . 1) $pod.labels) | nindent 2 }}
annotations:
  {{- merge (dict) (default (dict) $pod.annotations) $annotations | toYaml | nindent 2 }}
{{- end }}

{{/* The account, the security and the place of a pod. A third argument "fsGroup" lets its user read files of Secrets. */}}
{{- define "virtward.pod" -}}
{{- $values := (index . 0).Values }}
{{- $group := has "fsGroup" . }}
serviceAccountName: virtward-{{ index . 1 }}
automountServiceAccountToken: true
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- with $values.pod.runAsUser }}
  runAsUser: {{ int64 . }}
  runAsGroup: {{ int64 . }}
  {{- if $group }}
  fsGroup: {{ int64 . }}
  {{- end }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- range $field := list "priorityClassName" "nodeSelector" "tolerations" "affinity" }}
{{- with get $values.pod $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- end }}

{{/* The spread of the replicas over zones and nodes. */}}
{{- define "virtward.spread" -}}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "virtward.componentSelector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}

{{/* The name, the image and the security of the container. Arguments: the root context, and the value of the image. */}}
{{- define "virtward.container" -}}
{{- $root := index . 0 }}
{{- $image := index . 1 }}
name: virtward
image: {{ printf "%s%s" $image.repository (ternary (printf "@%s" $image.digest) (printf ":%s" (default $root.Chart.AppVersion $image.tag)) (not (empty $image.digest))) | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Variables of the environment. No arguments. */}}
{{- define "virtward.namespaceVariable" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}

{{- define "virtward.memoryVariable" -}}
# The garbage collector works harder above 85 percent of this limit, before the kernel kills the process.
- name: MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      containerName: virtward
      resource: limits.memory
{{- end }}

{{/* The probes of the port health. The argument is the period of the one for readiness, in seconds. */}}
{{- define "virtward.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: {{ . }}
  failureThreshold: 2
{{- end }}

{{/* The mounts and the volumes. The argument is a YAML list of volumes, each with its mountPath. */}}
{{- define "virtward.mounts" -}}
{{- with fromYamlArray . }}
volumeMounts:
  {{- range . }}
  - name: {{ .name }}
    mountPath: {{ .mountPath }}
    readOnly: true
  {{- end }}
{{- end }}
{{- end }}

{{- define "virtward.volumes" -}}
{{- with fromYamlArray . }}
volumes:
  {{- range . }}
  - {{- omit . "mountPath" | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Flags that several processes have. The argument is the root context. */}}

{{- define "virtward.logFlags" -}}
- --log-level={{ .Values.log.level }}
- --log-format={{ .Values.log.format }}
{{- end }}

{{- define "virtward.factsFlags" -}}
{{- with .Values.facts.rolloutStrategy -}}
- --rollout-strategy={{ . }}
{{ end -}}
- --mshv-cpu-model={{ .Values.facts.mshvCPUModel }}
{{- end }}

{{- define "virtward.policyFlags" -}}
{{- range .Values.policies.paramsNamespaces | default (list .Release.Namespace) }}
- --params-namespace={{ . }}
{{- end }}
{{- include "virtward.referenceFlags" . }}
{{- end }}

{{- define "virtward.referenceFlags" -}}
{{- range .Values.policies.references }}
- --policy-reference={{ . }}
{{- end }}
{{- end }}

{{- define "virtward.exemptFlags" -}}
{{- range .Values.webhook.exemptNamespaces }}
- --exempt-namespace={{ . }}
{{- end }}
{{- end }}

{{/* The flag for VirtualMachinePolicyExceptions. */}}
{{- define "virtward.exceptionFlag" -}}
{{- if .Values.policies.exceptions.enabled }}
- --policy-exception-max-days={{ int .Values.policies.exceptions.maxDays }}
{{- end }}
{{- end }}

{{/*
The Deployment of a component that is a command of the server, with its metrics, its disruption budget and its network
policy. Arguments, in a dict: root; component; values, with the replicas, the ports and the resources; flags. Those of some
components, as YAML lists: ports, volumes, and ingress, which clients reach it beside Prometheus. Also annotations, a dict, and
fsGroup as for virtward.pod.
*/}}
{{- define "virtward.process" -}}
{{- $self := list .root .component }}
{{- $replicas := int (dig "replicas" 1 .values) }}
{{- $volumes := default "" .volumes }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "virtward.metadata" $self | nindent 2 }}
spec:
  replicas: {{ $replicas }}
  selector:
    matchLabels:
      {{- include "virtward.componentSelector" $self | nindent 6 }}
  template:
    metadata:
      {{- include "virtward.podMetadata" (append $self (default (dict) .annotations)) | nindent 6 }}
    spec:
      {{- include "virtward.pod" (append $self (ternary "fsGroup" "" (default false .fsGroup))) | nindent 6 }}
      {{- include "virtward.spread" $self | nindent 6 }}
      containers:
        - {{- include "virtward.container" (list .root .root.Values.image) | nindent 10 }}
          args:
            - {{ .component }}
            - --health-address=:{{ int .values.healthPort }}
            - --metrics-address=:{{ int .values.metricsPort }}
            - --namespace=$(POD_NAMESPACE)
            {{- with trim .flags }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- include "virtward.logFlags" .root | nindent 12 }}
          env:
            {{- include "virtward.namespaceVariable" . | nindent 12 }}
            {{- include "virtward.memoryVariable" . | nindent 12 }}
          ports:
            {{- with .ports }}
            {{- . | nindent 12 }}
            {{- end }}
            - name: metrics
              containerPort: {{ int .values.metricsPort }}
            - name: health
              containerPort: {{ int .values.healthPort }}
          {{- include "virtward.probes" 5 | nindent 10 }}
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          {{- include "virtward.mounts" $volumes | nindent 10 }}
      {{- include "virtward.volumes" $volumes | nindent 6 }}
{{ include "virtward.metrics" (append $self .values.metricsPort) }}
{{ include "virtward.budget" (append $self $replicas) }}
{{ include "virtward.networkPolicy" (append $self (printf "%s\n%s" (default "" .ingress) (include "virtward.metricsIngress" .root))) }}
{{- end }}

{{/* What belongs to a process. */}}

{{/* The Service and the ServiceMonitor of the metrics. The third argument is their port. */}}
{{- define "virtward.metrics" -}}
{{- $root := index . 0 }}
---
apiVersion: v1
kind: Service
metadata:
  name: virtward-{{ index . 1 }}-metrics
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "virtward.componentLabels" . | nindent 4 }}
    virtward.io/service: metrics
spec:
  selector:
    {{- include "virtward.componentSelector" . | nindent 4 }}
  ports:
    - name: metrics
      port: {{ int (index . 2) }}
      targetPort: metrics
{{- with $root.Values.metrics.serviceMonitor }}
{{- if .enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: virtward-{{ index $ 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "virtward.labelsWith" (list $root (index $ 1) .labels) | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- include "virtward.componentSelector" $ | nindent 6 }}
      virtward.io/service: metrics
  endpoints:
    - port: metrics
      path: /metrics
      interval: {{ .interval }}
{{- end }}
{{- end }}
{{- end }}

{{/* The disruption budget. The third argument is the number of replicas. */}}
{{- define "virtward.budget" -}}
{{- if gt (int (index . 2)) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "virtward.metadata" (list (index . 0) (index . 1)) | nindent 2 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "virtward.componentSelector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* The network policy. The third argument is the YAML list of what is allowed; without one, nothing is. */}}
{{- define "virtward.networkPolicy" -}}
{{- if (index . 0).Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "virtward.metadata" (list (index . 0) (index . 1)) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "virtward.componentSelector" . | nindent 6 }}
  policyTypes: [Ingress]
  {{- with trim (index . 2) }}
  ingress:
    {{- . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Namespaces that can read metrics, of which there is a value. The argument is the root context. */}}
{{- define "virtward.metricsNamespaces" -}}
{{- with .Values.networkPolicy.metricsNamespaces }}
- namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values:
          {{- toYaml . | nindent 10 }}
{{- end }}
{{- end }}

{{- define "virtward.metricsIngress" -}}
{{- with include "virtward.metricsNamespaces" . }}
- ports:
    - port: metrics
      protocol: TCP
  from:
    {{- . | nindent 4 }}
{{- end }}
{{- end }}

{{/* The addresses of API servers, of which there is a value. The argument is the root context. */}}
{{- define "virtward.apiServerAddresses" -}}
{{- range .Values.networkPolicy.apiServerCIDRs }}
- ipBlock:
    cidr: {{ . | quote }}
{{- end }}
{{- end }}
