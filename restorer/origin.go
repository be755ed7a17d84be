package restorer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// originName is in the folder "member", so that it is moved with the data, and is
// put in place with it by the same rename. etcd does not look at it.
const originName = "etcd-ferry.json"

// Origin is what a restored data dir says of where it comes from.
type Origin struct {
	ClusterID string `json:"clusterID"` // that it was given, hexadecimal
	// Lineage and Epoch are those of the history that was restored, Snapshot is
	// the last one of it, and Revision where it ended.
	Lineage  string `json:"lineage"`
	Epoch    int64  `json:"epoch"`
	Snapshot string `json:"snapshot"`
	Revision int64  `json:"revision"`
	Bumped   int64  `json:"bumped,omitempty"` // added to Revision
	// OperationID is that of the adoption whose set this is; empty: of none.
	OperationID string    `json:"operationID,omitempty"`
	Time        time.Time `json:"time"`
}

// ReadOrigin returns the Origin of a data dir. fs.ErrNotExist says that it was not
// restored by a Restorer. Who asks compares the cluster id with the one of the
// WAL: something else may have been put there since.
func ReadOrigin(dataDir string) (Origin, error) {
	var o Origin
	path := filepath.Join(dataDir, memberFolder, originName)
	data, err := os.ReadFile(path)
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return o, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

// sign writes the Origin into the staged data dir.
func (j *job) sign() error {
	chain := j.plan.Chain.All()
	last := chain[len(chain)-1]
	data, err := json.MarshalIndent(Origin{
		ClusterID: j.result.ClusterID, Lineage: last.Lineage, Epoch: last.Epoch, Snapshot: last.Name,
		Revision: j.result.Revision, Bumped: j.result.Current - j.result.Revision,
		OperationID: j.plan.Options.OperationID, Time: time.Now().UTC(),
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(j.staging.data(), memberFolder, originName), append(data, '\n'), 0o600)
}

// hollow reports whether there is nothing in dir but folders, and the empty file
// with which a fence.Lock stands in for a database.
func hollow(dir string) (bool, error) {
	empty := true
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		standIn := err == nil && e.Name() == "db" && info.Mode().IsRegular() && info.Size() == 0
		if err == nil && !standIn {
			empty = false
			return fs.SkipAll
		}
		return err
	})
	return empty, err
}
