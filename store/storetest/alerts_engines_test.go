package storetest_test

import (
	"testing"

	"github.com/nearjob/nearjob/store/storetest"
	"github.com/nearjob/nearjob/testdata/testdb"
)

func TestMySQLAlerts(t *testing.T) {
	testdb.MySQL(t) // as in TestMySQL
	storetest.Alerts(t, alertVenue(mysqlSchema))
}

// alertVenue is fresh for the alerts.
func alertVenue(db database) func(t *testing.T) storetest.AlertVenue {
	return func(t *testing.T) storetest.AlertVenue {
		v, ok := db(t)(t).(storetest.AlertVenue)
		if !ok {
			t.Fatal("the engine has no alerts")
		}
		return v
	}
}
