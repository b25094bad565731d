//! SE07: what a consumer must not decide.

use super::{Code, error, warning};

pub(super) const SAFETY: &[Code] = &[
    error(
        "SE0701",
        "two mappings writing one status field of one resource",
        "Two mappings may watch one resource, if they write different status fields.",
        "# a second mapping of the same resource that writes `phase` as well\n",
        "# write the field in one of them; the other sets `observedGeneration: Off` and `engineConditions: []`\n",
    ),
    error(
        "SE0702",
        "a placement where two sources can meet",
        "Namespace and name must differ for any two sources; the note shows a pair.",
        "placement: {namespace: \"{{ source.metadata.namespace }}\"}\n",
        "placement: {namespace: \"{{ source.metadata.namespace | dns_label(40) }}-{{ short_hash(workspace.cluster, source.metadata.namespace) }}\"}\n",
    ),
    warning(
        "SE0703",
        "a consumer's text that reaches a namespace or a kind",
        "A controller that follows the field would reach where the consumer chooses.",
        "objects:\n  - {id: db, template: {apiVersion: other.example.com/v1, kind: Copy, spec: {ref: {namespace: \"{{ source.spec.type }}\"}}}}\n",
        "objects:\n  - {id: db, template: {apiVersion: other.example.com/v1, kind: Copy, spec: {ref: {namespace: \"{{ placement.namespace }}\"}}}}\n",
    ),
    error(
        "SE0704",
        "a consumer's text that reaches RBAC",
        "A consumer must not decide who may do what on the target.",
        "objects:\n  - id: db\n    template:\n      apiVersion: rbac.authorization.k8s.io/v1\n      kind: RoleBinding\n      subjects: [{kind: User, name: \"{{ source.spec.type }}\"}]\n",
        "objects:\n  - id: db\n    template:\n      apiVersion: rbac.authorization.k8s.io/v1\n      kind: RoleBinding\n      subjects: [{kind: ServiceAccount, name: database}]\n",
    ),
    warning(
        "SE0705",
        "a pod template that a consumer can fill",
        "Pods of the consumer's making would run on the target.",
        "objects:\n  - {id: db, template: {apiVersion: apps/v1, kind: Deployment, spec: \"${{ source.spec.free | default({}) }}\"}}\n",
        "objects:\n  - {id: db, template: {apiVersion: apps/v1, kind: Deployment, spec: {replicas: \"${{ source.spec.members | default(1) }}\"}}}\n",
    ),
    error(
        "SE0706",
        "a kind that is cluster-scoped",
        "It would be one object for all tenants.",
        "objects:\n  - {id: db, template: {apiVersion: v1, kind: Namespace}}\n",
        "objects:\n  - {id: db, template: {apiVersion: v1, kind: ConfigMap}}\n",
    ),
    error(
        "SE0707",
        "a consumer's free text that ends in a command line",
        "The operator puts the field into a shell's command, so a consumer could run commands in the provider's cluster.",
        "objects:\n  - id: db\n    template:\n      apiVersion: mongodbcommunity.mongodb.com/v1\n      kind: MongoDBCommunity\n      spec: {type: ReplicaSet, users: [], security: {}, agent: {logFile: \"${{ source.spec.region | default('') }}\"}}\n",
        "objects:\n  - id: db\n    template:\n      apiVersion: mongodbcommunity.mongodb.com/v1\n      kind: MongoDBCommunity\n      spec: {type: ReplicaSet, users: [], security: {}, agent: {logFile: /dev/stdout}}\n",
    ),
    warning(
        "SE0708",
        "two objects of one kind that can get one name",
        "If one object's name is `placement.name` alone, the source `x-ca` gets the name that `x` needs for its `-ca`: the later of the two waits in `Conflict`. The same holds for two mappings of the same clusters.",
        "objects:\n  - {id: db, template: {apiVersion: v1, kind: ConfigMap}}\n  - {id: ca, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ placement.name }}-ca\"}}}\n",
        "objects:\n  - {id: db, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ placement.name }}-db\"}}}\n  - {id: ca, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ placement.name }}-ca\"}}}\n",
    ),
    warning(
        "SE0709",
        "a consumer's value in a field that should stay with the provider",
        "The field decides which program runs, with whose rights, or who signs a certificate. A field whose values the consumers' schema lists is no finding.",
        "objects:\n  - {id: db, template: {apiVersion: cert-manager.io/v1, kind: Certificate, spec: {issuerRef: {name: \"${{ source.spec.region | default('a') }}\"}}}}\n",
        "objects:\n  - {id: db, template: {apiVersion: cert-manager.io/v1, kind: Certificate, spec: {issuerRef: {name: tenants}}}}\n",
    ),
    warning(
        "SE0710",
        "a name or label that can grow too long",
        "With a long name, the source stays `RenderFailed` or `Refused`. The rules are tried on 200 characters, or on as many as the consumers' schema allows (`maxLength` of `metadata.name`).",
        "objects:\n  - {id: web, template: {apiVersion: v1, kind: Service, metadata: {name: \"{{ placement.name }}-web\"}}}\n",
        "objects:\n  - {id: web, template: {apiVersion: v1, kind: Service, metadata: {name: \"{{ placement.name | dns_label(40) }}-{{ short_hash(placement.name) }}\"}}}\n",
    ),
    error(
        "SE0711",
        "an object of another tenant that is read back",
        "With `direction: ToSource`, the namespace or the name of the object must differ between tenants. An object of the provider is read by a name and a `from.namespace` that are literals, and not in the namespace of the placement. Of names that `objects` or `related` give, only what the engine owns for the source, or what that owns, is read.",
        "placement: {namespace: databases, name: \"{{ source.metadata.name | dns_label(30) }}-{{ short_hash(workspace.cluster, source.metadata.namespace, source.metadata.name) }}\"}\nrelated:\n  - {id: access, direction: ToSource, resource: secrets.v1, from: {name: \"{{ source.spec.region | default('a') }}\"}, to: {name: \"{{ placement.name }}-access\"}}\n",
        "placement: {namespace: databases, name: \"{{ source.metadata.name | dns_label(30) }}-{{ short_hash(workspace.cluster, source.metadata.namespace, source.metadata.name) }}\"}\nrelated:\n  - {id: access, direction: ToSource, resource: secrets.v1, from: {name: \"{{ placement.name }}-access\"}, to: {name: \"{{ source.metadata.name }}-access\"}}\n",
    ),
];
