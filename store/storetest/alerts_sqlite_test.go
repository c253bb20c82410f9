package storetest_test

import (
	"testing"

	"github.com/nearjob/nearjob/store/storetest"
)

func TestSQLiteAlerts(t *testing.T) { storetest.Alerts(t, alertVenue(sqliteFile)) }
