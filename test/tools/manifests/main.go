// Manifests builds the kustomization in each directory that it is given, decodes
// what comes out strictly as the API types of Kubernetes, and prints it as JSON: a
// list of objects for each directory, in the order of the arguments. A field that
// Kubernetes does not know, or a key that is there twice, is an error.
//
// It is a module of its own, so that the product's has no Kubernetes in it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	decoders "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(dirs []string) error {
	decoder, err := newDecoder()
	if err != nil {
		return err
	}
	lists := make([][]runtime.Object, len(dirs))
	for i, dir := range dirs {
		if lists[i], err = build(dir, decoder); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(lists)
}

func newDecoder() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(appsv1.AddToScheme(scheme), batchv1.AddToScheme(scheme), corev1.AddToScheme(scheme),
		networkingv1.AddToScheme(scheme), policyv1.AddToScheme(scheme))
	options := decoders.SerializerOptions{Yaml: true, Strict: true}
	return decoders.NewSerializerWithOptions(decoders.DefaultMetaFactory, scheme, scheme, options), err
}

func build(dir string, decoder runtime.Decoder) (objects []runtime.Object, err error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", r.GetKind(), r.GetName(), err))
		}
		objects = append(objects, object)
	}
	return objects, errors.Join(errs...)
}
