// The MinIO SDK for Go: answers the steps that ../protocol.py describes.
//
// Usage: minio-go-client ENDPOINT BUCKET KEY_ID SECRET
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

type step struct {
	Do          string            `json:"do"`
	File        string            `json:"file"`
	Key         string            `json:"key"`
	Prefix      string            `json:"prefix"`
	Source      string            `json:"source"`
	Target      string            `json:"target"`
	First       int64             `json:"first"`
	Length      int64             `json:"length"`
	ContentType string            `json:"content_type"`
	Metadata    map[string]string `json:"metadata"`
}

type client struct {
	s3     *minio.Client
	bucket string
}

func main() {
	endpoint := strings.TrimPrefix(os.Args[1], "http://")
	s3, err := minio.New(endpoint, &minio.Options{
		Creds:      credentials.NewStaticV4(os.Args[3], os.Args[4], ""),
		Region:     "us-east-1",
		MaxRetries: 1,
	})
	if err != nil {
		panic(err)
	}

	answers := json.NewEncoder(os.Stdout)
	answers.Encode(map[string]string{"version": version()})

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := run(client{s3, os.Args[2]}, lines.Bytes())
		if err != nil {
			answers.Encode(map[string]string{"error": fmt.Sprintf("%+v", err)})
		} else {
			answers.Encode(map[string]any{"answer": answer})
		}
	}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/minio/minio-go/v7" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

func run(c client, line []byte) (any, error) {
	var s step
	if err := json.Unmarshal(line, &s); err != nil {
		return nil, err
	}

	ctx := context.Background()
	switch s.Do {
	case "put":
		options := minio.PutObjectOptions{ContentType: s.ContentType, UserMetadata: s.Metadata, PartSize: 5 << 20}
		_, err := c.s3.FPutObject(ctx, c.bucket, s.Key, s.File, options)
		return nil, err
	case "get":
		return nil, c.s3.FGetObject(ctx, c.bucket, s.Key, s.File, minio.GetObjectOptions{})
	case "read_range":
		return nil, c.readRange(ctx, s)
	case "list_all":
		sizes := map[string]int64{}
		for found := range c.s3.ListObjects(ctx, c.bucket, minio.ListObjectsOptions{Prefix: s.Prefix, Recursive: true}) {
			if found.Err != nil {
				return nil, found.Err
			}
			sizes[found.Key] = found.Size
		}
		return sizes, nil
	case "list_level":
		names := []string{}
		for found := range c.s3.ListObjects(ctx, c.bucket, minio.ListObjectsOptions{Prefix: s.Prefix}) {
			if found.Err != nil {
				return nil, found.Err
			}
			names = append(names, found.Key)
		}
		return names, nil
	case "copy":
		to := minio.CopyDestOptions{Bucket: c.bucket, Object: s.Target}
		_, err := c.s3.CopyObject(ctx, to, minio.CopySrcOptions{Bucket: c.bucket, Object: s.Source})
		return nil, err
	case "delete":
		return nil, c.s3.RemoveObject(ctx, c.bucket, s.Key, minio.RemoveObjectOptions{})
	case "delete_all":
		found := c.s3.ListObjects(ctx, c.bucket, minio.ListObjectsOptions{Prefix: s.Prefix, Recursive: true})
		for failed := range c.s3.RemoveObjects(ctx, c.bucket, found, minio.RemoveObjectsOptions{}) {
			return nil, failed.Err
		}
		return nil, nil
	case "head":
		found, err := c.s3.StatObject(ctx, c.bucket, s.Key, minio.StatObjectOptions{})
		if err != nil {
			return nil, err
		}
		metadata := map[string]string{}
		for name, value := range found.UserMetadata {
			metadata[strings.ToLower(name)] = value
		}
		return map[string]any{"size": found.Size, "content_type": found.ContentType, "metadata": metadata}, nil
	}
	return nil, fmt.Errorf("no step %q", s.Do)
}

func (c client) readRange(ctx context.Context, s step) error {
	options := minio.GetObjectOptions{}
	if err := options.SetRange(s.First, s.First+s.Length-1); err != nil {
		return err
	}

	object, err := c.s3.GetObject(ctx, c.bucket, s.Key, options)
	if err != nil {
		return err
	}
	defer object.Close()

	file, err := os.Create(s.File)
	if err != nil {
		return err
	}
	defer file.Close()

	_, err = io.Copy(file, object)
	return err
}
