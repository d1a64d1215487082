// Fetches URLs and looks at no proxy variable.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	client := &http.Client{Transport: &http.Transport{Proxy: nil, ForceAttemptHTTP2: true}}
	for _, url := range os.Args[1:] {
		response, err := client.Get(url)
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		body, _ := io.ReadAll(response.Body)
		fmt.Print(response.StatusCode, " ", string(body))
	}
}
