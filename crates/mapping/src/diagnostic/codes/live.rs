//! SE08: what live clusters lack (`sync-engine doctor`).

use super::{Code, error};

pub(super) const LIVE: &[Code] = &[
    error(
        "SE0801",
        "a cluster that cannot be read",
        "The connection has no kubeconfig, or its server does not answer.",
        "# `target: {cluster: edge}` without `--connection edge=PATH`, or with one whose server is down\n",
        "# give the engine a kubeconfig under the connection's name, and look whether `kubectl` reaches the server with it\n",
    ),
    error(
        "SE0802",
        "an APIExport that is not there",
        "Without it there are no workspaces to watch.",
        "# `apiExport: {name: mongodb, path: root:mongodb}` while the workspace `root:mongodb` has no such APIExport\n",
        "# apply the APIExport in that workspace, or correct `name` and `path`\n",
    ),
    error(
        "SE0803",
        "an APIExportEndpointSlice that is not there",
        "kcp makes one with each APIExport; one that `endpointSlice` names is the provider's to make.",
        "# `apiExport: {name: mongodb, endpointSlice: edge}` while the workspace has no slice `edge`\n",
        "# leave `endpointSlice` out, or apply the slice\n",
    ),
    error(
        "SE0804",
        "an APIExport that does not publish the mapping's resource",
        "Group, plural and version of `source.resource` must be among its APIResourceSchemas.",
        "# `resource: databases.v2.example.dev` while the APIExport names an APIResourceSchema that has v1 alone\n",
        "# write a resource that is published, or name the other APIResourceSchema in the APIExport\n",
    ),
    error(
        "SE0805",
        "a permission claim that the APIExport lacks",
        "Related objects, and objects beside their source, need a claim, unless the APIExport publishes them itself.",
        "# `related: [{id: password, direction: ToTarget, resource: secrets.v1, …}]` while the APIExport claims no secrets\n",
        "# add what `sync-engine rbac --for claims` prints to the APIExport, and accept it in the APIBindings\n",
    ),
    error(
        "SE0806",
        "rights that the engine lacks",
        "`sync-engine rbac` prints them.",
        "# the engine's user may not `create` the kind of an object on the target\n",
        "# apply what `sync-engine rbac` prints for that side\n",
    ),
    error(
        "SE0807",
        "a kind that the target does not serve",
        "Its CustomResourceDefinition is missing, or has another version.",
        "# `apiVersion: example.dev/v2` while the target serves example.dev/v1 alone\n",
        "# install the operator, or write a version that is served\n",
    ),
    error(
        "SE0808",
        "an object that the target would refuse",
        "A rule in CEL, a webhook or a quota refused the dry run, or the server's schema has another field.",
        "# a template that leaves out what the operator's webhook demands\n",
        "# write what the message asks for\n",
    ),
];
