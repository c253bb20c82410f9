// Package fcm sends push messages through Firebase Cloud Messaging's HTTP v1 API.
//
// It uses Google's client google.golang.org/api/fcm/v1 and not the Firebase Admin
// SDK: FCM.md beside the package notify has the figures, and the reasons.
//
// A token that FCM no longer knows (UNREGISTERED) is removed from the store.
// Other refusals are kept as errors, for they can be the project's fault.
// A quota or an outage is waited out as its Retry-After says.
//
// Limits: one call for each device (HTTP v1 has no batches), to tokens only, no
// topics. A user's devices get a message one after the other.
package fcm
