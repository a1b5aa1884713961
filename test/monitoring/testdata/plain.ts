import type { Dashboard as Published } from '@grafana/schema'

// Plain is a type whose enums are their strings and numbers, as in JSON. Grafana's exports have `definition` in variables, which
// its schema lacks.
type Plain<T> = T extends string
  ? `${T}`
  : T extends number
    ? number
    : T extends boolean
      ? boolean
      : T extends Array<infer U>
        ? Plain<U>[]
        : T extends object
          ? { [K in keyof T]: Plain<T[K]> } & (T extends { multi?: boolean; includeAll?: boolean } ? { definition?: string } : unknown)
          : T

export type Dashboard = Plain<Published>
