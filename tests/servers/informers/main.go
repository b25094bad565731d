// Follows gadgets and ConfigMaps with client-go's own informers, as Go controllers do, and prints what they tell:
// the dynamic one, the one for metadata alone, and a typed one that prefers Protobuf.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"k8s.io/apimachinery/pkg/api/meta"
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

var gadgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the server's address and the user's token")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	stop := make(chan struct{})
	started := start(config, stop)
	fmt.Println("synced:", started)

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	close(stop)
}

// start runs all informers and tells whether each has what there is.
func start(config *rest.Config, stop chan struct{}) bool {
	dynamics := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
	metadatas := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(config), 0)
	preferring := rest.CopyConfig(config)
	preferring.ContentType = "application/vnd.kubernetes.protobuf"
	preferring.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	typed := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(preferring), 0)

	all := map[string]cache.SharedIndexInformer{
		"dynamic":  dynamics.ForResource(gadgets).Informer(),
		"metadata": metadatas.ForResource(gadgets).Informer(),
		"typed":    typed.Core().V1().ConfigMaps().Informer(),
	}
	var synced []cache.InformerSynced
	for name, informer := range all {
		if _, err := informer.AddEventHandler(told(name)); err != nil {
			log.Fatal(err)
		}
		synced = append(synced, informer.HasSynced)
	}
	dynamics.Start(stop)
	metadatas.Start(stop)
	typed.Start(stop)
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
