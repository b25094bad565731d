// Follows gadgets and ConfigMaps with client-go's own informers, as Go controllers do, and prints what they tell:
// the dynamic one, the one for metadata alone, and a typed one that prefers Protobuf. With -slice it follows the gadgets
// of all consumers of an APIExport, at the URLs that its endpoint slice names.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	gadgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	slices  = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apiexportendpointslices"}
)

type byName map[string]cache.SharedIndexInformer

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the server's address and the user's token")
	slice := flag.String("slice", "", "name of an APIExportEndpointSlice")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	stop := make(chan struct{})
	fmt.Println("synced:", start(config, *slice, stop))

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	close(stop)
}

// start runs all informers and tells whether each has what there is.
func start(config *rest.Config, slice string, stop chan struct{}) bool {
	if slice == "" {
		return follow(ofServer(config), stop)
	}
	synced := true
	for _, url := range endpoints(config, slice) {
		endpoint := rest.CopyConfig(config)
		endpoint.Host = url + "/clusters/*"
		synced = follow(ofGadgets(endpoint), stop) && synced
	}
	return synced
}

// endpoints reads the URLs of the virtual workspaces that serve an export.
func endpoints(config *rest.Config, slice string) []string {
	client := dynamic.NewForConfigOrDie(config).Resource(slices)
	object, err := client.Get(context.Background(), slice, metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	found, _, err := unstructured.NestedSlice(object.Object, "status", "endpoints")
	if err != nil || len(found) == 0 {
		log.Fatalf("slice %s has no endpoints: %v", slice, err)
	}
	var urls []string
	for _, endpoint := range found {
		url, _, err := unstructured.NestedString(endpoint.(map[string]any), "url")
		if err != nil {
			log.Fatal(err)
		}
		urls = append(urls, url)
	}
	return urls
}

func ofGadgets(config *rest.Config) byName {
	dynamics := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
	metadatas := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(config), 0)
	return byName{
		"dynamic":  dynamics.ForResource(gadgets).Informer(),
		"metadata": metadatas.ForResource(gadgets).Informer(),
	}
}

func ofServer(config *rest.Config) byName {
	preferring := rest.CopyConfig(config)
	preferring.ContentType = "application/vnd.kubernetes.protobuf"
	preferring.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	typed := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(preferring), 0)
	all := ofGadgets(config)
	all["typed"] = typed.Core().V1().ConfigMaps().Informer()
	return all
}

func follow(all byName, stop chan struct{}) bool {
	var synced []cache.InformerSynced
	for name, informer := range all {
		if _, err := informer.AddEventHandler(told(name)); err != nil {
			log.Fatal(err)
		}
		synced = append(synced, informer.HasSynced)
		go informer.Run(stop)
	}
	return cache.WaitForCacheSync(stop, synced...)
}

var printing sync.Mutex

// told prints what an informer of a name tells.
func told(informer string) cache.ResourceEventHandler {
	say := func(what string, object any) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		accessor, err := meta.Accessor(object)
		if err != nil {
			log.Fatal(err)
		}
		printing.Lock()
		defer printing.Unlock()
		fmt.Printf("%s: %s %s %v\n", informer, what, accessor.GetName(), accessor.GetLabels())
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { say("added", object) },
		UpdateFunc: func(_, object any) { say("updated", object) },
		DeleteFunc: func(object any) { say("deleted", object) },
	}
}
