// Command health tells what other tools make of objects: the state that kstatus computes, by which Flux, Helm and kpt
// wait, and the health that a script for Argo CD computes.
//
// It reads a JSON array of objects from the standard input, the script from the file that is named by its only
// argument, and writes a JSON array with a result for each object.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type kstatus struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type result struct {
	Kstatus kstatus           `json:"kstatus"`
	Argocd  map[string]string `json:"argocd"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: health SCRIPT < OBJECTS")
	}
	script, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	var objects []map[string]any
	decoder := json.NewDecoder(os.Stdin)
	if err := decoder.Decode(&objects); err != nil {
		return err
	}
	results := []result{}
	for _, object := range objects {
		computed, err := status.Compute(&unstructured.Unstructured{Object: integers(object).(map[string]any)})
		if err != nil {
			return err
		}
		health, err := argocd(string(script), object)
		if err != nil {
			return err
		}
		results = append(results, result{
			Kstatus: kstatus{Status: computed.Status.String(), Message: computed.Message},
			Argocd:  health,
		})
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

// integers makes whole numbers what they are in objects that come from an API server.
func integers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, element := range value {
			value[key] = integers(element)
		}
	case []any:
		for at, element := range value {
			value[at] = integers(element)
		}
	case float64:
		if value == float64(int64(value)) {
			return int64(value)
		}
	}
	return value
}

// argocd runs a script as Argo CD does: the object is the global `obj`, the libraries are those that it opens for
// scripts without `useOpenLibs`, and the result is a table.
func argocd(script string, object map[string]any) (map[string]string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
	} {
		open := lua.P{Fn: state.NewFunction(library.open), Protect: true}
		if err := state.CallByParam(open, lua.LString(library.name)); err != nil {
			return nil, err
		}
	}
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return nil, errors.New("the script returns no table")
	}
	health := map[string]string{}
	table.ForEach(func(key, value lua.LValue) { health[key.String()] = value.String() })
	return health, nil
}

func value(state *lua.LState, of any) lua.LValue {
	switch of := of.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, element := range of {
			table.RawSetString(key, value(state, element))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, element := range of {
			table.Append(value(state, element))
		}
		return table
	case string:
		return lua.LString(of)
	case bool:
		return lua.LBool(of)
	case float64:
		return lua.LNumber(of)
	case int64:
		return lua.LNumber(of)
	default:
		return lua.LNil
	}
}
