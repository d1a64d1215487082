# The docker driver must allow the runtime on the client: plugin "docker" { config { allow_runtimes = ["runc", "brig"] } }
job "untrusted" {
  type = "batch"

  group "code" {
    task "run" {
      driver = "docker"

      config {
        image   = "python:3.12-slim"
        runtime = "brig"
        command = "python3"
        args    = ["-c", "print(6*7)"]
      }

      resources {
        cpu    = 500
        memory = 256
      }
    }
  }
}
