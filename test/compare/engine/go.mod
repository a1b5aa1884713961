module github.com/virtward/virtward/test/compare/engine

go 1.26.0
